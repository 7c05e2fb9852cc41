#version 330 core

// One point sprite per key. Centres arrive in pixels of the plot, origin at its top left corner, so that a
// deep zoom loses no precision to float32 matrices; their depth is 0 at the eye and 1 at the back.
layout(location = 0) in vec3 centre_px;
layout(location = 1) in vec4 ink;

uniform vec2 viewport_px;
uniform float beyond_px;  // by how much the viewport reaches beyond the plot, on every side
uniform float diameter_px;

flat out vec4 colour;

void main() {
  vec2 ndc = 2.0 * (centre_px.xy + beyond_px) / viewport_px - 1.0;
  gl_Position = vec4(ndc.x, -ndc.y, 2.0 * centre_px.z - 1.0, 1.0);
  gl_PointSize = diameter_px + 1.0;  // half a pixel around the edge for its anti-aliasing
  colour = ink;
}

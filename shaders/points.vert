#version 330 core

// One point sprite per key. Centres arrive in pixels of the plot, origin at its top left corner, so that a
// deep zoom loses no precision to float32 matrices.
layout(location = 0) in vec2 centre_px;

uniform vec2 viewport_px;
uniform float beyond_px;  // by how much the viewport reaches beyond the plot, on every side
uniform float diameter_px;

void main() {
  vec2 ndc = 2.0 * (centre_px + beyond_px) / viewport_px - 1.0;
  gl_Position = vec4(ndc.x, -ndc.y, 0.0, 1.0);
  gl_PointSize = diameter_px + 1.0;  // half a pixel around the edge for its anti-aliasing
}

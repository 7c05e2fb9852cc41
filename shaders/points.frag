#version 330 core

// An anti-aliased disc (stroke_px = 0) or ring, by the distance of the fragment from the sprite's centre.
// The output is premultiplied by its alpha.
uniform vec4 colour;
uniform float diameter_px;
uniform float stroke_px;

out vec4 fragment;

void main() {
  float from_centre = length(gl_PointCoord - 0.5) * (diameter_px + 1.0);
  float radius = 0.5 * diameter_px;
  float coverage = clamp(radius + 0.5 - from_centre, 0.0, 1.0);
  if (stroke_px > 0.0) coverage *= clamp(from_centre - (radius - stroke_px) + 0.5, 0.0, 1.0);
  float alpha = colour.a * coverage;
  fragment = vec4(colour.rgb * alpha, alpha);
}

#version 330 core

// An anti-aliased disc (stroke_px = 0) or ring by the distance of the fragment from the sprite's centre, or
// the two strokes of a cross. The output is premultiplied by its alpha.
uniform float diameter_px;
uniform float stroke_px;
uniform bool cross;
uniform float least_coverage;  // what is covered by less is left out: a depth is all or nothing

flat in vec4 colour;
out vec4 fragment;

// How much of a fragment a band covers whose edge is this far outside of it.
float covered(float outside_px) { return clamp(0.5 - outside_px, 0.0, 1.0); }

void main() {
  vec2 place = (gl_PointCoord - 0.5) * (diameter_px + 1.0);
  float radius = 0.5 * diameter_px;
  float coverage;
  if (cross) {
    vec2 along = abs(vec2(place.x + place.y, place.x - place.y)) * 0.70710678;
    float beside = min(along.x, along.y) - 0.5 * stroke_px;
    coverage = covered(beside) * covered(max(along.x, along.y) - radius);
  } else {
    float from_centre = length(place);
    coverage = covered(from_centre - radius);
    if (stroke_px > 0.0) coverage *= covered(radius - stroke_px - from_centre);
  }
  if (coverage < least_coverage) discard;
  float alpha = colour.a * coverage;
  fragment = vec4(colour.rgb * alpha, alpha);
}

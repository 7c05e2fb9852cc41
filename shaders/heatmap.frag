#version 330 core

// A matrix through a colour table. Cells are counted from the matrix's first, also where a smaller level of
// it is drawn, whose every cell stands for 2^level.x columns and 2^level.y rows of them.
uniform sampler2D cells;    // R32F, one level
uniform sampler2D colours;  // 256 x 1
uniform float height_px;
uniform vec2 first_cell;    // at the picture's top left corner
uniform vec2 cells_per_px;
uniform vec2 n_cells;       // columns, rows
uniform ivec2 level;
uniform vec2 range;         // of the colour scale
uniform bool logarithmic;
uniform vec3 missing;       // NaN
uniform vec3 background;        // beyond the matrix

out vec4 fragment;

// As figures::scale_position.
float scale_position(float value) {
  if (logarithmic && (value <= 0.0 || range.x <= 0.0)) return 0.0;
  if (range.y <= range.x) return 0.5;
  if (!logarithmic) return (value - range.x) / (range.y - range.x);
  return log(value / range.x) / log(range.y / range.x);
}

void main() {
  vec2 at_px = vec2(gl_FragCoord.x, height_px - gl_FragCoord.y);  // OpenGL's rows go upwards
  vec2 cell = first_cell + at_px * cells_per_px;
  if (any(lessThan(cell, vec2(0.0))) || any(greaterThanEqual(cell, n_cells))) {
    fragment = vec4(background, 1.0);
    return;
  }
  float value = texelFetch(cells, ivec2(cell) >> level, 0).r;
  if (isnan(value)) {
    fragment = vec4(missing, 1.0);
    return;
  }
  float entry = clamp(scale_position(value), 0.0, 1.0) * 255.0 + 0.5;
  fragment = vec4(texelFetch(colours, ivec2(int(entry), 0), 0).rgb, 1.0);
}

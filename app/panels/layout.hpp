#pragma once

namespace keyscope::window {

struct Rect {
  float x = 0, y = 0, w = 0, h = 0;

  float right() const { return x + w; }
  float bottom() const { return y + h; }
  bool empty() const { return !(w > 0 && h > 0); }
};

// Where the panels lie, in pixels. They fill the window without overlap at any size. The middle, with the row
// of views above it, comes first: where it would become too small, the token's column is left out (its facts
// are in the tooltip), then heads and policies (keys select them); the timeline where there is not the height
// (keys step through it). A panel that is left out has an empty rectangle.
struct Layout {
  Rect top, views, heads, runs, middle, token, timeline, status;
};

//   scale: of fonts and spacing
//   runs_height: what the list of runs would like, in pixels; it gets at most half of its column
Layout make_layout(float width, float height, float scale, float runs_height);

}  // namespace keyscope::window

#pragma once

namespace keyscope::window {

struct Rect {
  float x = 0, y = 0, w = 0, h = 0;

  float right() const { return x + w; }
  float bottom() const { return y + h; }
};

// Where the panels lie, in pixels. They fill the window without overlap at any size.
struct Layout {
  Rect top, heads, runs, keyspace, token, timeline, status;
};

//   scale: of fonts and spacing
//   runs_height: what the list of runs would like, in pixels; it gets at most half of its column
Layout make_layout(float width, float height, float scale, float runs_height);

}  // namespace keyscope::window

#pragma once

namespace keyscope::window {

struct WindowSize {
  int width = 0, height = 0;
};

// The size of a window that no size was asked for: 1280 x 800 at the monitor's scale, at most its work area.
//   content_scale: of the monitor, 1 where it is not known
//   work_area: pixels, 0 where it is not known
WindowSize default_size(float content_scale, WindowSize work_area);

inline constexpr WindowSize kLeastSize{640, 420};  // below it panels do not fit

// A size cut to the work area, never below the least one.
//   work_area: pixels, 0 where it is not known
WindowSize within(WindowSize size, WindowSize work_area);

}  // namespace keyscope::window

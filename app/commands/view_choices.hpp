#pragma once

#include <string>

namespace keyscope::commands {

struct WindowSize {
  int width = 0, height = 0;
};

// "1280x800", in pixels.
//   throws UsageError where it is none, or one that no window could have
WindowSize parse_window_size(const std::string& text);

// The name of a view of the window, from it or a figure's alias such as `fig2`.
//   throws UsageError naming those that there are
std::string view_name(const std::string& name);

}  // namespace keyscope::commands

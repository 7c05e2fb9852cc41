#include "app/window/default_size.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::window {

WindowSize default_size(float content_scale, WindowSize work_area) {
  const float scale = content_scale > 0 ? content_scale : 1;
  const WindowSize size{static_cast<int>(std::lround(1280 * scale)),
                        static_cast<int>(std::lround(800 * scale))};
  return within(size, work_area);
}

WindowSize within(WindowSize size, WindowSize work_area) {
  if (work_area.width > 0) size.width = std::min(size.width, work_area.width);
  if (work_area.height > 0) size.height = std::min(size.height, work_area.height);
  return {std::max(size.width, kLeastSize.width), std::max(size.height, kLeastSize.height)};
}

}  // namespace keyscope::window

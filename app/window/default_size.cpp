#include "app/window/default_size.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::window {

WindowSize default_size(float content_scale, WindowSize work_area) {
  const float scale = content_scale > 0 ? content_scale : 1;
  WindowSize size{static_cast<int>(std::lround(1280 * scale)), static_cast<int>(std::lround(800 * scale))};
  if (work_area.width > 0) size.width = std::min(size.width, work_area.width);
  if (work_area.height > 0) size.height = std::min(size.height, work_area.height);
  return size;
}

}  // namespace keyscope::window

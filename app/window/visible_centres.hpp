#pragma once

#include <cstdint>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/panels/plot_view.hpp"
#include "app/window/scroll.hpp"

namespace keyscope::window {

// Centres in pixels of the plot that can be seen in a part of it, for one series: those outside are left out,
// and so is every point whose centre shares half a pixel with one drawn after it, which it lies under.
//   diameter_px: points are kept while any of their pixels is inside `part`
//   out: x0, y0, x1, y1 …, in the order of drawing
//   occupied: scratch memory
void visible_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<float>& out, std::vector<std::uint64_t>& occupied);

}  // namespace keyscope::window

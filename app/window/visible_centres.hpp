#pragma once

#include <cstdint>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/frame.hpp"

namespace keyscope::window {

// A point's centre in pixels of the plot, and which of its series it is.
struct VisibleCentre {
  float x = 0, y = 0;
  std::uint32_t at = 0;
};

// Centres that can be seen in a part of a plot, for one series: those outside are left out, and so is every
// point whose centre shares half a pixel with one that it lies under: in the plane with one drawn after it,
// in space with one nearer to the eye. Of what is left out nothing would be seen but a rim of less than a
// pixel.
//   series: in space `z` is the depth, larger farther away
//   diameter_px: points are kept while any of their pixels is inside `part`
//   out: in the order of drawing
//   occupied: scratch memory
void visible_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out,
                     std::vector<std::uint64_t>& occupied);
void nearest_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out, std::vector<std::uint32_t>& nearest);

}  // namespace keyscope::window

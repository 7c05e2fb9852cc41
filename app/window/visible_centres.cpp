#include "app/window/visible_centres.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::window {
namespace {

constexpr int kCellsPerPixel = 2;

}  // namespace

void visible_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<float>& out, std::vector<std::uint64_t>& occupied) {
  // Whole pixels, so that the cells are the same ones for every part of the plot.
  const float margin = std::ceil(0.5F * diameter_px) + 1;
  const float left = static_cast<float>(part.x_low) - margin;
  const float top = static_cast<float>(part.y_low) - margin;
  const float width = static_cast<float>(part.x_high - part.x_low) + 2 * margin;
  const float height = static_cast<float>(part.y_high - part.y_low) + 2 * margin;
  const auto columns = static_cast<std::size_t>(width * kCellsPerPixel) + 1;
  const auto rows = static_cast<std::size_t>(height * kCellsPerPixel) + 1;
  occupied.assign((columns * rows + 63) / 64, 0);

  // The part's corner is where pixels are counted from, in float64: a deep zoom loses nothing.
  const PlotPoint centre = view.centre();
  const double sx = view.pixels_per_unit_x();
  const double sy = view.pixels_per_unit_y();
  const double x_origin = 0.5 * view.width() - left;
  const double y_origin = 0.5 * view.height() - top;
  out.clear();
  // From the last drawn to the first, so that what is kept is what lies on top.
  for (std::size_t i = series.x.size(); i-- > 0;) {
    const auto x = static_cast<float>(x_origin + (series.x[i] - centre.x) * sx);
    const auto y = static_cast<float>(y_origin - (series.y[i] - centre.y) * sy);
    if (!(x > 0 && x < width && y > 0 && y < height)) continue;
    const auto column = static_cast<std::size_t>(x * kCellsPerPixel);
    const auto row = static_cast<std::size_t>(y * kCellsPerPixel);
    const std::size_t cell = row * columns + column;
    const std::uint64_t bit = std::uint64_t{1} << (cell % 64);
    if ((occupied[cell / 64] & bit) != 0) continue;
    occupied[cell / 64] |= bit;
    out.push_back(y + top);
    out.push_back(x + left);
  }
  std::reverse(out.begin(), out.end());
}

}  // namespace keyscope::window

#include "app/window/visible_centres.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace keyscope::window {
namespace {

constexpr int kCellsPerPixel = 2;

// Half pixels of a part of the plot and what reaches into it.
class CellGrid {
 public:
  CellGrid(const PlotView& view, const PixelRect& part, float diameter_px)
      : scale_x_(view.pixels_per_unit_x()), scale_y_(view.pixels_per_unit_y()), centre_(view.centre()) {
    // Whole pixels, so that the cells are the same ones for every part of the plot.
    const float margin = std::ceil(0.5F * diameter_px) + 1;
    left_ = static_cast<float>(part.x_low) - margin;
    top_ = static_cast<float>(part.y_low) - margin;
    width_ = static_cast<float>(part.x_high - part.x_low) + 2 * margin;
    height_ = static_cast<float>(part.y_high - part.y_low) + 2 * margin;
    columns_ = static_cast<std::size_t>(width_ * kCellsPerPixel) + 1;
    rows_ = static_cast<std::size_t>(height_ * kCellsPerPixel) + 1;
    // The part's corner is where pixels are counted from, in float64: a deep zoom loses nothing.
    x_origin_ = 0.5 * view.width() - left_;
    y_origin_ = 0.5 * view.height() - top_;
  }

  struct Place {
    float x = 0, y = 0;  // pixels of the plot
    std::size_t cell = 0;
  };

  // Empty where the point is not in sight.
  std::optional<Place> place(float point_x, float point_y) const {
    const auto x = static_cast<float>(x_origin_ + (point_x - centre_.x) * scale_x_);
    const auto y = static_cast<float>(y_origin_ - (point_y - centre_.y) * scale_y_);
    if (!(x > 0 && x < width_ && y > 0 && y < height_)) return std::nullopt;
    const auto column = static_cast<std::size_t>(x * kCellsPerPixel);
    const auto row = static_cast<std::size_t>(y * kCellsPerPixel);
    return Place{x + left_, y + top_, row * columns_ + column};
  }

  std::size_t n_cells() const { return columns_ * rows_; }

 private:
  double scale_x_, scale_y_;
  PlotPoint centre_;
  float left_ = 0, top_ = 0, width_ = 0, height_ = 0;
  std::size_t columns_ = 0, rows_ = 0;
  double x_origin_ = 0, y_origin_ = 0;
};

}  // namespace

void visible_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out,
                     std::vector<std::uint64_t>& occupied) {
  const CellGrid grid(view, part, diameter_px);
  occupied.assign((grid.n_cells() + 63) / 64, 0);
  out.clear();
  // From the last drawn to the first, so that what is kept is what lies on top.
  for (std::size_t i = series.x.size(); i-- > 0;) {
    const auto place = grid.place(series.x[i], series.y[i]);
    if (!place) continue;
    const std::uint64_t bit = std::uint64_t{1} << (place->cell % 64);
    if ((occupied[place->cell / 64] & bit) != 0) continue;
    occupied[place->cell / 64] |= bit;
    out.push_back({place->x, place->y, static_cast<std::uint32_t>(i)});
  }
  std::ranges::reverse(out);
}

void nearest_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out,
                     std::vector<std::uint32_t>& nearest) {
  const CellGrid grid(view, part, diameter_px);
  nearest.assign(grid.n_cells(), 0);  // a point's index, plus one
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const auto place = grid.place(series.x[i], series.y[i]);
    if (!place) continue;
    std::uint32_t& front = nearest[place->cell];
    if (front == 0 || series.z[i] <= series.z[front - 1]) front = static_cast<std::uint32_t>(i) + 1;
  }
  out.clear();
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const auto place = grid.place(series.x[i], series.y[i]);
    if (place && nearest[place->cell] == i + 1)
      out.push_back({place->x, place->y, static_cast<std::uint32_t>(i)});
  }
}

}  // namespace keyscope::window

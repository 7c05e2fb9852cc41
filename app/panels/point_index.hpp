#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/display/plot_view.hpp"

namespace keyscope::window {

// Finds the token under the cursor: a grid over the points of a panel that are tokens.
class PointIndex {
 public:
  // hidden: ids of series that are switched off; the arrays of `panel` are copied
  void build(const figures::Panel& panel, const std::vector<std::string>& hidden);

  // The token whose point is nearest to `at`, within `radius_px` on the screen; of equally near ones the last
  // drawn.
  std::optional<std::int32_t> nearest(const PlotView& view, Pixel at, float radius_px) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    float x, y;
    std::int32_t token;
    std::int32_t order;  // of drawing
  };
  static constexpr int kCells = 192;  // along each side

  int column(double x) const;
  int row(double y) const;

  session::Extent extent_;
  std::vector<Entry> entries_;        // by cell
  std::vector<std::uint32_t> start_;  // (kCells² + 1) first entry of each cell
};

}  // namespace keyscope::window

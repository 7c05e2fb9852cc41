#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "app/figures/reduction.hpp"

namespace keyscope::figures {

// How often columns (x) and rows (y) were halved.
struct HeatmapLevel {
  std::size_t x = 0, y = 0;
  auto operator<=>(const HeatmapLevel&) const = default;
};

// A matrix at halves, quarters, … of its size, so that every cell takes part in the picture however small it
// is drawn: with max, a single bright column never vanishes. Level 0 is the matrix itself; a cell of level L
// stands for 2^L × 2^L of it, NaN ones left out (fewer at the last row and column); one of NaN alone is NaN.
// Where few columns stand beside many rows, or few rows beside many columns, only the many are halved.
class HeatmapPyramid {
 public:
  HeatmapPyramid() = default;
  HeatmapPyramid(RowMatrixF values, Reduction reduction);

  // Those whose columns and rows were halved as often.
  const std::vector<RowMatrixF>& levels() const { return levels_; }

  // Any level; one of the others is made when it is first asked for.
  const RowMatrixF& at(HeatmapLevel level);

  // The level whose cells are at least a pixel wide and high, for so many cells of level 0 a pixel.
  HeatmapLevel level_for(double x_cells_per_pixel, double y_cells_per_pixel) const;

 private:
  std::size_t level_for(double cells_per_pixel) const;

  Reduction reduction_ = Reduction::kMean;
  std::vector<RowMatrixF> levels_;
  std::map<HeatmapLevel, RowMatrixF> others_;
};

}  // namespace keyscope::figures

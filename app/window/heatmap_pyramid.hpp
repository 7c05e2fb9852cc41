#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/reduction.hpp"

namespace keyscope::window {

// A matrix at halves, quarters, … of its size, so that every cell takes part in the picture however small it
// is drawn: with max, a single bright column never vanishes. Level 0 is the matrix itself; a cell of level L
// stands for 2^L × 2^L of it, NaN ones left out (fewer at the last row and column); one of NaN alone is NaN.
class HeatmapPyramid {
 public:
  HeatmapPyramid() = default;
  HeatmapPyramid(RowMatrixF values, figures::Reduction reduction);

  const std::vector<RowMatrixF>& levels() const { return levels_; }

  // The level whose cells are at least a pixel large, for so many cells of level 0 a pixel.
  std::size_t level_for(double cells_per_pixel) const;

 private:
  std::vector<RowMatrixF> levels_;
};

}  // namespace keyscope::window

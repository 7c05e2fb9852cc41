#pragma once

// Cosines of cached rows with their mean, at the speed of memory: what scoring a cache by KeyDiff comes down
// to. Products are float32, and so are their sums over 32 columns and those of a column over 16 rows; all
// that is longer is float64. `similarity` holds the same in float64 throughout.

#include <span>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

struct RowMoments {
  Eigen::VectorXd mean;           // (n_cols); zero for no rows
  Eigen::VectorXd inverse_norms;  // (n_rows) 1/‖row‖; 0 where the norm is 0
};

// Both in one pass.
//   rows: (n_rows, n_cols), of any scale: results follow a power of two exactly, to the ends of float32
//   accuracy, u = 2^-24: inverse norms within 4 u, relative; each coordinate of the mean within 16 u of the
//   mean of its magnitudes
RowMoments row_moments(const MatrixView& rows);

// A vector that rows are compared with, as float32 can hold it.
struct QuickAnchor {
  explicit QuickAnchor(const Eigen::VectorXd& anchor);

  std::vector<float> values;  // anchor / ‖anchor‖ = values · scale, of magnitudes up to 1
  double scale = 0;           // 0 for an anchor of zeros, NaN for one that is not finite
};

// Cosine of every row with `anchor`: 0 where either is zero, NaN where either is not finite.
//   rows: (n_rows, n_cols); inverse_norms: those of row_moments; anchor: of n_cols; cosines: (n_rows), not
//   cut off at ±1
//   accuracy: 12 u absolute
void quick_cosines(const MatrixView& rows, const Eigen::VectorXd& inverse_norms, const QuickAnchor& anchor,
                   std::span<double> cosines);

}  // namespace keyscope::analysis

#pragma once

#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Σ x xᵀ over rows, in float64, a tile of rows at a time: the second moments that PCA and log volumes start
// from. Runs at the processor's vector width.
class GramSum {
 public:
  explicit GramSum(Eigen::Index n_cols);

  // Adds the rows of a tile: (any, n_cols). Some hundred rows at a time stay in the cache.
  void add(const RowMatrixD& tile);

  // Adds any number of rows as they lie around `origin`, tile after tile; no copy of them all is made.
  //   rows: (n_rows, n_cols); origin: (n_cols)
  void add_around(const MatrixView& rows, const Eigen::VectorXd& origin);

  // The sum so far: (n_cols, n_cols), symmetric.
  Eigen::MatrixXd matrix() const;

 private:
  void add_padded(Eigen::Index n_rows);

  Eigen::Index n_cols_;
  RowMatrixD padded_;  // a tile, its columns filled up with zeros to whole strips
  RowMatrixD sum_;     // (padded, padded); only strips that reach the upper triangle are kept up
};

// Rows that callers put into a tile.
inline constexpr Eigen::Index kGramTileRows = 256;

}  // namespace keyscope::analysis

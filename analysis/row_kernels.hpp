#pragma once

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Σ x xᵀ over rows, in float64, a tile of rows at a time: the second moments that PCA and log volumes start
// from. No copy of all rows is made. Runs at the processor's vector width.
class GramSum {
 public:
  explicit GramSum(Eigen::Index n_cols);

  // Adds the rows as they lie around `origin`.
  //   rows: (n_rows, n_cols); origin: (n_cols)
  void add_around(const MatrixView& rows, const Eigen::VectorXd& origin);

  // Adds each row times its factor.
  //   rows: (n_rows, n_cols); factors: (n_rows)
  void add_scaled(const MatrixView& rows, const Eigen::VectorXd& factors);

  // The sum so far: (n_cols, n_cols), symmetric.
  Eigen::MatrixXd matrix() const;

 private:
  void add(const MatrixView& rows, const Eigen::VectorXd& origin, const Eigen::VectorXd& factors);

  Eigen::Index n_cols_;
  RowMatrixD tile_;  // strip after strip of 16 columns of a tile's rows, the last filled up with zeros
  RowMatrixD sum_;  // columns filled up to whole strips; only those that reach the upper triangle are kept up
};

}  // namespace keyscope::analysis

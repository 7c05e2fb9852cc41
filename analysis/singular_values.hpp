#pragma once

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Σ x xᵀ over the rows: (n_cols, n_cols).
Eigen::MatrixXd gram_matrix(const RowMatrixD& rows);

// The rows, or their transpose where that has the smaller Gram matrix; the nonzero singular values are the
// same.
RowMatrixD tall(const RowMatrixD& rows);

// Squares of the min(n_rows, n_cols) singular values, in any order. Only a Gram matrix of that size is
// formed.
//   rows: finite, at least one row and one column; callers check
//   accuracy: 1e-8 relative, of all that are above 1e-14 of the largest; where the rows are so well
//   conditioned that squaring loses nothing, the eigenvalues of the Gram matrix, else an SVD of the rows
Eigen::VectorXd squared_singular_values(const RowMatrixD& rows);

}  // namespace keyscope::analysis

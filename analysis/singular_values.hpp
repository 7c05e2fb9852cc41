#pragma once

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Squares of the min(n_rows, n_cols) singular values, in any order. Only a Gram matrix of that size is
// formed.
//   rows: (n_rows, n_cols), finite, at least one row and one column; callers check
//   accuracy: 1e-8 relative, of all that are above 1e-14 of the largest; where the rows are so well
//   conditioned that squaring loses nothing, the eigenvalues of the Gram matrix, else an SVD of the rows
Eigen::VectorXd squared_singular_values(const MatrixView& rows);

}  // namespace keyscope::analysis

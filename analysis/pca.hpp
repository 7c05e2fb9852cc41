#pragma once

#include <span>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"
#include "analysis/symmetric_solvers.hpp"

namespace keyscope::analysis {

// Principal axes of rows around their mean.
struct Pca {
  Eigen::VectorXd mean;                // (n_cols)
  RowMatrixD axes;                     // (n_cols, n_components) orthonormal columns, largest variance first
  Eigen::VectorXd explained_variance;  // (n_components) of n_rows - 1 degrees of freedom; zero for one row
  Eigen::VectorXd explained_ratio;     // (n_components) share of the total variance; NaN where there is none
  double relative_residual = 0;        // max over axes of ‖C a - λ a‖ / trace C: how well the solver did
};

// Fits one basis on all blocks together: one joint mean over every row of every block, so that keys and
// queries, or the keys of several policies, are drawn in the same coordinates (Fig. 4, 5, 8-11). The sign of
// an axis makes its largest loading by magnitude positive, the first of equal ones. Axes of equal variance
// span a subspace in which their rotation is arbitrary; axes beyond the rank have variance zero.
//   blocks: (n_i, n_cols) each, finite, at least one row in all; 1 <= n_components <= n_cols
//   throws InvalidInput otherwise
//   accuracy: ratios to 1e-12; the solver is that of leading_eigenpairs
Pca fit_pca(std::span<const MatrixView> blocks, int n_components);

// Coordinates of rows along the axes: (n_rows, n_components).
//   throws InvalidInput where the widths differ
RowMatrixD project(const Pca& pca, const MatrixView& rows);

// The pairs of the largest eigenvalues, the largest first. Lanczos iterations where they are fewer work than
// a dense solver; their result is taken only where its residual is within 1e-10 of the trace and a Cholesky
// factorisation proves that no larger eigenvalue was missed, as repeated ones can be. Otherwise the dense
// solver's.
//   matrix: (n, n) symmetric, positive semidefinite but for rounding, finite; 1 <= n_pairs <= n
Eigenpairs leading_eigenpairs(const Eigen::MatrixXd& matrix, Eigen::Index n_pairs);

// max over pairs of ‖A v - λ v‖ / trace A; 0 where the trace is.
double relative_residual(const Eigen::MatrixXd& matrix, const Eigenpairs& pairs);

}  // namespace keyscope::analysis

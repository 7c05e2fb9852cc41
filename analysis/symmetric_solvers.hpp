#pragma once

#include <Eigen/Core>

namespace keyscope::analysis {

// Dense solvers of symmetric matrices, here so that they are compiled once: a file that names Eigen's takes
// ten seconds longer. A matrix is (n, n), n >= 1, and finite; its lower triangle is read.

// Eigenvalues and orthonormal eigenvectors, A V = V Λ.
struct Eigenpairs {
  Eigen::VectorXd values;   // (n_pairs)
  Eigen::MatrixXd vectors;  // (n, n_pairs)
};

// All pairs, the least eigenvalue first. Where the iterations do not converge, the residual shows it.
Eigenpairs ascending_eigenpairs(const Eigen::MatrixXd& symmetric);

// (n) the least first; NaN throughout where the iterations do not converge.
Eigen::VectorXd ascending_eigenvalues(const Eigen::MatrixXd& symmetric);

// Whether a Cholesky factorisation exists.
bool is_positive_definite(const Eigen::MatrixXd& symmetric);

// Natural logarithm of the determinant.
double log_det(const Eigen::MatrixXd& positive_definite);

}  // namespace keyscope::analysis

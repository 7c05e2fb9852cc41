#pragma once

#include <Eigen/Core>

namespace keyscope::analysis {

// Eigenvalues and orthonormal eigenvectors, A V = V Λ.
struct Eigenpairs {
  Eigen::VectorXd values;   // (n_pairs) descending
  Eigen::MatrixXd vectors;  // (n, n_pairs)
};

// The pairs of the largest eigenvalues. Lanczos iterations where they are fewer work than a dense solver;
// their result is taken only where its residual is within 1e-10 of the trace and a Cholesky factorisation
// proves that no larger eigenvalue was missed, as repeated ones can be. Otherwise the dense solver's.
//   matrix: (n, n) symmetric, positive semidefinite but for rounding, finite; 1 <= n_pairs <= n
Eigenpairs leading_eigenpairs(const Eigen::MatrixXd& matrix, Eigen::Index n_pairs);

// max over pairs of ‖A v - λ v‖ / trace A; 0 where the trace is.
double relative_residual(const Eigen::MatrixXd& matrix, const Eigenpairs& pairs);

}  // namespace keyscope::analysis

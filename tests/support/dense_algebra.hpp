#pragma once

// What tests compare with: slow and dense, compiled once for all suites, and optimised.

#include <cstdint>

#include <Eigen/Core>

namespace keyscope {

struct AscendingEigenpairs {
  Eigen::VectorXd values;
  Eigen::MatrixXd vectors;  // unit vectors in columns
};

// By Eigen's solver.
AscendingEigenpairs ascending_eigenpairs(const Eigen::MatrixXd& symmetric);

// Descending; columns are turned by pairs until all are orthogonal (one-sided Jacobi, Golub and Van Loan, 4th
// edition, 8.6.4), which finds the small ones as well as the large ones.
Eigen::VectorXd dense_singular_values(const Eigen::MatrixXd& matrix);

// AᵀA.
Eigen::MatrixXd dense_gram(const Eigen::MatrixXd& a);

// An orthogonal matrix of d columns, drawn from a seed.
Eigen::MatrixXd random_rotation(std::uint64_t seed, Eigen::Index d);

}  // namespace keyscope

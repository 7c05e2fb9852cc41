#pragma once

// What tests compare with: Eigen's dense solver, compiled once for all suites, and optimised, as they are
// not.

#include <cstdint>

#include <Eigen/Core>

#include "analysis/symmetric_solvers.hpp"

namespace keyscope {

// All pairs, descending.
analysis::Eigenpairs all_eigenpairs(const Eigen::MatrixXd& symmetric);

// AᵀA.
Eigen::MatrixXd dense_gram(const Eigen::MatrixXd& a);

// An orthogonal matrix of d columns, drawn from a seed.
Eigen::MatrixXd random_rotation(std::uint64_t seed, Eigen::Index d);

}  // namespace keyscope

#pragma once

#include <cstdint>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// What the scores of several policies are made of.

// Less the mean, over the standard deviation, which counts as 1e-6 at least.
Eigen::ArrayXd standardised(const Eigen::ArrayXd& scores);

// (n) statistical leverage of rows, x_jᵀ(XᵀX)⁺x_j: eigenvalues below 1e-10 of the largest count as none,
// since float32 keys carry about 1e-7 of noise, squared.
//   policy: for messages
//   throws InvalidInput where a row is not finite
Eigen::ArrayXd leverages(const RowMatrixD& rows, const char* policy);

// The option `kernel`: an odd number of rows, so that one lies in the middle.
//   throws UsageError otherwise
std::int64_t read_kernel(const PolicySpec& spec);

}  // namespace keyscope::analysis

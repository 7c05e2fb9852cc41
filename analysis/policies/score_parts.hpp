#pragma once

#include <cstdint>
#include <span>

#include <Eigen/Core>

#include "analysis/attention_rules.hpp"
#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// What the scores of several policies are made of.

// Less the mean, over the standard deviation, which counts as 1e-6 at least.
Eigen::ArrayXd standardised(const Eigen::ArrayXd& scores);

// (n) statistical leverage of rows, x_jᵀ(XᵀX + ridge)⁺x_j: eigenvalues of XᵀX below 1e-10 of the largest
// count as none, since float32 keys carry about 1e-7 of noise, squared.
//   policy: for messages
//   throws InvalidInput where a row is not finite
Eigen::ArrayXd leverages(const RowMatrixD& rows, const char* policy, double ridge = 0);

// Weights that queries give the rows of one KV head's cache, in float64: softmax over the rows that are
// there, as the model's attention would have it if these were all.
//   queries: (G · w, head_dim) after RoPE: of each of G query heads the last w before position `end`, one
//   head after the other
//   rules: (G)
//   keys, positions: (n_rows) after RoPE, and where they stand
//   returns (G · w, n_rows); zeros where a query sees none of the rows
//   throws InvalidInput where a query or a key that it sees is not finite
RowMatrixD weights_on_rows(const RowMatrixD& queries, std::int64_t end, std::span<const AttentionRules> rules,
                           const MatrixView& keys, std::span<const std::int32_t> positions);

// The option `kernel`: an odd number of rows, so that one lies in the middle.
//   throws UsageError otherwise
std::int64_t read_kernel(const PolicySpec& spec);

}  // namespace keyscope::analysis

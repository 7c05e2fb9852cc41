#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>

#include "analysis/attention_rules.hpp"
#include "analysis/policies/unrotated.hpp"

namespace keyscope::capture {

// What scores on tensors are made of: the same as in analysis/policies/score_parts.hpp and unrotated.hpp, of
// h heads at once, where the rows lie. Results are float64.

at::Tensor doubles(const at::Tensor& rows);

// x / y, 0 where y is.
at::Tensor quotient(const at::Tensor& x, const at::Tensor& y);

// (h, n) less the mean of each head, over the standard deviation, which counts as 1e-6 at least.
at::Tensor standardised_scores(const at::Tensor& scores);

// (h, n) statistical leverage of rows (h, n, d), float64. The eigenvectors are taken on the host.
//   throws InvalidInput where a row is not finite
at::Tensor tensor_leverages(const at::Tensor& rows, double ridge = 0);

// (h, n) the draws of analysis::uniform_draw, to the bit, for KV heads from `first_head` on.
//   positions: (h, n) or (1, n) int64, where the draws are wanted
at::Tensor uniform_draws(std::uint64_t seed, int layer, int first_head, std::int64_t n_heads,
                         const at::Tensor& positions);

// (…, d, d) W of A⁻¹ = W Wᵀ, where A is the unit matrix and what is positive besides, likewise.
//   throws InvalidInput where A is not finite
at::Tensor inverse_roots(const at::Tensor& a);

// (h, n, d) keys as they were before they turned; positions: (h, n) int64.
at::Tensor unrotated_keys(const at::Tensor& keys, const at::Tensor& positions,
                          const analysis::Rotation& rotation);

// The coordinates (…, n_pairs) of rows (…, d) that turn together, the first of each pair and the second.
std::pair<at::Tensor, at::Tensor> turning_pairs(const at::Tensor& rows, const analysis::Rotation& rotation);

// (d, d) on the host: what the mean rotation of n positions from `first` on multiplies vectors by.
at::Tensor mean_rotation_matrix(const analysis::Rotation& rotation, std::int64_t d, std::int64_t first,
                                std::int64_t n);

// Weights that the last w queries of each head's group give its rows.
//   queries: (h, G, w, d) after RoPE, of the positions up to `end`; keys: (h, n, d); positions: (h, n) int64
//   rules: (h · G)
//   returns (h, G, w, n); zeros where a query sees none of the rows
at::Tensor weights_there(const at::Tensor& queries, std::int64_t end,
                         std::span<const analysis::AttentionRules> rules, const at::Tensor& keys,
                         const at::Tensor& positions);

// What all queries of query heads were so far, before they turned: see analysis::QueryMoments.
struct TensorMoments {
  std::int64_t n = 0;
  at::Tensor sum = {};       // (n_heads, d)
  at::Tensor moduli = {};    // (n_heads, n_pairs and those that do not turn)
  at::Tensor products = {};  // (n_heads, d, d)

  //   queries: (n_heads, n, d), before RoPE
  void add(const at::Tensor& queries, const analysis::Rotation& rotation);
  TensorMoments copy() const;
  // Of `n_heads` from `first` on, as (h, G, …).
  TensorMoments of_heads(std::int64_t first, std::int64_t n_heads, std::int64_t group) const;

  at::Tensor mean() const;
  at::Tensor mean_moduli() const;
  at::Tensor covariance() const;
};

}  // namespace keyscope::capture

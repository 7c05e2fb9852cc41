#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// How many rows each layer or head keeps, where these are not all the same. Fractions go to the largest
// remainders, of equal ones to the first; what would have none takes one of the largest.

// N of each layer, whose sum is n_layers · N: from w + a evenly down to w + b, where a = 39/20 (N - w), but
// no more than the prompt's other rows, and b = 2 (N - w) - a (PyramidKV, arXiv 2406.02069).
//   w: rows that every layer protects
std::vector<std::int64_t> pyramid_budgets(std::int64_t n_layers, std::int64_t budget, std::int64_t w,
                                          std::int64_t n_prompt);

// Whole numbers in the ratio of the weights, each at least 1, whose sum is n · budget.
//   weights: finite, above 0
std::vector<std::int64_t> dealt_out(std::span<const double> weights, std::int64_t budget);

// CAKE's temperatures (arXiv 2503.12491): the larger one is, the less its measure says.
struct CakeTemperatures {
  double spatial = 1.6;
  double temporal = 0.4;
};

// What CAKE measures of a layer's attention in the last kCakeWindow queries of a block.
inline constexpr std::int64_t kCakeWindow = 32;
struct LayerPreference {
  double dispersion = 0;  // H: entropy, in nats, of each query head's mean weights, summed over these
  double shift = 0;       // V: variance of a row's weights over the queries, summed over rows and query heads

  // Adds a query head's weights (w, n_rows).
  void add(const RowMatrixD& weights);
  void add(const LayerPreference& other);

  // The logarithm of H^(1/τ1) · V^(1/τ2), which itself may be more than a number can be; minus infinity of 0.
  double log_share(const CakeTemperatures& temperatures) const;
};

// N of each layer, whose sum is n_layers · N, or all rows where these are fewer: w each, at least 1, and of
// the rest as much as its share says; what a layer does not hold goes to the others by theirs.
//   log_shares: all alike where those that are left have none (minus infinity)
//   n_rows: what each layer holds
//   unit: rows that are dealt out together, in pages: w is rounded up to them, N and so all budgets down, to
//   one page at least
//   throws InvalidInput on a share that is not finite
std::vector<std::int64_t> cake_budgets(std::span<const double> log_shares, std::int64_t budget,
                                       std::int64_t w, std::span<const std::int64_t> n_rows,
                                       std::int64_t unit = 1);

}  // namespace keyscope::analysis

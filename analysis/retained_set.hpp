#pragma once

#include <cstdint>
#include <span>

#include "analysis/attention_rules.hpp"
#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Share of the attention that falls on retained rows; NaN where no row received any, or one what is not
// finite.
//   attention_received: (n_tokens), not negative; retained: positions within it
//   throws InvalidInput on a position outside
double attention_mass_kept(std::span<const double> attention_received,
                           std::span<const std::int32_t> retained);

// Overlap of two retained sets, |A ∩ B| / |A ∪ B|; NaN for two empty sets.
//   a, b: ascending
double jaccard(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

// What queries take from a cache: for each the values that it sees, weighed by the softmax of its scores
// under its head's rules, in which a sink has its part; zero where it sees none. A query sees the rows at
// positions up to its own that the window reaches.
//   queries: (n_queries, head_dim) of the KV head's query heads, as many of each, head after head; keys:
//   (n_tokens, head_dim), row = position; values: (n_tokens, value_dim); rows: ascending positions of those
//   that are there; rules: of each of the query heads; result: (n_queries, value_dim)
//   throws InvalidInput on sizes that do not match, positions outside, or anything that is not finite
RowMatrixD attend(const MatrixView& queries, std::span<const std::int32_t> query_positions,
                  const MatrixView& keys, const MatrixView& values, std::span<const std::int32_t> rows,
                  std::span<const AttentionRules> rules);

// What attention loses by a retained set: ‖o_retained - o_full‖ / ‖o_full‖, Frobenius norms over all queries.
// NaN where o_full is 0.
//   full, retained: (n_queries, value_dim), as `attend` gives them
double output_error(const RowMatrixD& full, const RowMatrixD& retained);

}  // namespace keyscope::analysis

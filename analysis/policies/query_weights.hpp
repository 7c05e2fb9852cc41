#pragma once

#include <cstdint>
#include <span>

#include "analysis/attention_rules.hpp"
#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Weights that queries give the rows of one KV head's cache, in float64: softmax over the rows that are
// there, as the model's attention would have it if these were all.
//   queries: (G · w, head_dim) after RoPE: of each of G query heads the last w before position `end`, one
//   head after the other
//   rules: (G)
//   keys, positions: (n_rows) after RoPE, and where they stand
//   returns (G · w, n_rows); zeros where a query sees none of the rows
RowMatrixD weights_on_rows(const RowMatrixD& queries, std::int64_t end, std::span<const AttentionRules> rules,
                           const MatrixView& keys, std::span<const std::int32_t> positions);

}  // namespace keyscope::analysis

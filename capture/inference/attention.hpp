#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace keyscope::capture {

// A block's queries against the rows of a cache whose last rows are the block's own: query i of n sees all
// but the last n - 1 - i rows. H_q query heads share H_kv KV heads, G = H_q / H_kv each.
struct AttentionInput {
  at::Tensor queries;  // (H_q, n, head_dim)
  at::Tensor keys;     // (H_kv, n_rows, head_dim)
  at::Tensor values;   // (H_kv, n_rows, head_dim)
};

struct AttentionOutput {
  at::Tensor output;       // (H_q, n, head_dim)
  at::Tensor log_sum_exp;  // (H_q, n) float32, of the scaled logits
};

// Fused attention, in query tiles so that no mask is larger than tile × n_rows.
//   throws InvalidInput where queries, keys or values hold NaN or Inf (the fused kernel would return zeros)
AttentionOutput attend(const AttentionInput& input);

// Exact weights, recomputed tile by tile from the log-sum-exp: A_ij = exp(q_i·k_j/√d - lse_i).
// Sums over the block's queries, mean over each group: (H_kv, n_rows) float64.
at::Tensor attention_column_sums(const AttentionInput& input, const at::Tensor& log_sum_exp);

// Rows of the weights of the last `count` queries: (H_q, count, n_rows) float32.
at::Tensor attention_rows(const AttentionInput& input, const at::Tensor& log_sum_exp, std::int64_t first,
                          std::int64_t count);

}  // namespace keyscope::capture

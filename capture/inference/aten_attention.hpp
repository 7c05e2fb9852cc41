#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/attention.hpp"
#include "capture/model/device_work.hpp"

namespace keyscope::capture {

// A block's queries and what they may see, as AttentionInput, but with the rows of all heads together, on any
// device.
struct AtenAttentionInput {
  at::Tensor queries;               // (n_heads, n, head_dim)
  at::Tensor keys, values;          // (n_kv_heads, n_rows, head_dim); past a head's own rows anything finite
  at::Tensor new_keys, new_values;  // (n_kv_heads, n, head_dim): those of the block's own tokens
  std::vector<std::int64_t> head_rows;  // per KV head: how many are its own
  // Of a KV head, where they have to be known: the true positions of its own rows, ascending.
  std::function<std::span<const std::int32_t>(int kv_head)> positions;
  AttentionRules rules;
  at::Tensor sinks;                         // (n_heads) float32, on the host, as AttentionInput has them
  const SideStream* side_stream = nullptr;  // which brings statistics that may come late
};

// Scores of a tile of queries that are in memory at once, and float32 keys or values: 128 MiB of either.
inline constexpr std::int64_t kAtenTileScores = std::int64_t{1} << 25;

// What `attend` computes, with LibTorch's operations alone. The output comes from PyTorch's fused kernels,
// which keep no score and give the log-sum-exp; scores that are capped, and heads that these kernels do not
// take, go tile by tile. Statistics, where they are wanted, come tile by tile from weights that are taken
// anew from that log-sum-exp: products in the queries' dtype with float32 sums, sums over queries in float64.
// The output stays on the device, all else comes to the host in one piece; only weights, where they are
// wanted, come tile by tile. Where nothing is wanted, or only what may come late, nobody waits: whether
// numbers were finite is left `unchecked`, or is said with what comes.
//   tile_scores: a tile has as many queries as give no more scores than this, but one at least
//   throws InvalidInput where queries, or keys or values of the block's own rows, hold NaN or Inf
AttentionOutput aten_attend(const AtenAttentionInput& input, const AttentionWants& wants = {},
                            std::int64_t tile_scores = kAtenTileScores);

//   sums: (3) float32 of queries, keys and values, on the host
//   throws InvalidInput where one is not finite
void require_finite_sums(const at::Tensor& sums);

}  // namespace keyscope::capture

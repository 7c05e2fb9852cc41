#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/kernels/kernels.hpp"
#include "capture/model/config.hpp"

namespace keyscope::capture {

// Cached rows of one KV head in time order, those of the block's own tokens last.
struct HeadRows {
  const void* keys = nullptr;               // (n_rows, head_dim), contiguous
  const void* values = nullptr;             // (n_rows, head_dim), contiguous
  std::span<const std::int32_t> positions;  // (n_rows) true positions, ascending

  std::int64_t n_rows() const { return static_cast<std::int64_t>(positions.size()); }
};

// A block's queries and what they may see: rows up to their own position. n_heads query heads share
// heads.size() KV heads, G each.
struct AttentionInput {
  at::Tensor queries;  // (n_heads, n, head_dim), contiguous
  std::vector<HeadRows> heads;
  AttentionRules rules;
  // (n_heads) float32: scores that take part in the softmax and have no row; undefined: none.
  at::Tensor sinks;

  std::int64_t n_heads() const { return queries.size(0); }
  std::int64_t n_queries() const { return queries.size(1); }
  std::int64_t head_dim() const { return queries.size(2); }
  std::int64_t group_size() const { return n_heads() / static_cast<std::int64_t>(heads.size()); }
};

// Which statistics are to be taken on the way.
struct AttentionWants {
  bool column_sums = false;
  bool entropy = false;
  bool last_row = false;
  std::vector<std::int64_t> windows;  // of how many last queries the weights are summed, each by itself
  // Per query head: its weights, (n, n_positions) by true position, zeroed; null: not wanted. Empty: of no
  // head.
  std::vector<float*> weights;
  std::int64_t n_positions = 0;
  // Whether what is summed up may come after attention has returned: see AttentionOutput::late.
  bool may_come_late = false;
};

// A statistic per query head, over the rows that the head's KV head has: [n_heads][n_rows].
template <typename T>
using PerRow = std::vector<std::vector<T>>;

// What was wanted; empty else.
struct AttentionStatistics {
  at::Tensor entropy;          // (n_heads, n) float32, in nats, the sink's weight included
  PerRow<double> column_sums;  // over all queries of the block
  // (n_heads) the sinks' weights, summed like the columns, with which they add up to the number of queries;
  // empty where there are none.
  std::vector<double> sink_sums;
  PerRow<float> last_row;                   // the last query's weights
  std::vector<PerRow<double>> window_sums;  // per window, over that many last queries or all there are
};

struct AttentionOutput : AttentionStatistics {
  at::Tensor output;       // (n, n_heads · head_dim) in the queries' dtype, where they lie
  at::Tensor log_sum_exp;  // (n_heads, n) float32, of the scaled and capped scores and the sink's, where
                           // the queries lie
  // On a device, where nothing else is wanted on the host: what `require_finite_sums` is to look at some
  // time.
  at::Tensor unchecked;
  // Where they may come late and do so: waits for the statistics, and throws what `attend` would.
  std::function<AttentionStatistics()> late;
};

// Exact attention of a block, tile by tile: no more of the weights is in memory than a tile of queries needs,
// and statistics come from the very weights that multiply the values. Products are taken in the queries'
// dtype with float32 sums, everything else in float32, sums over queries in float64.
//   throws InvalidInput where queries, or keys or values of the block's own rows, hold NaN or Inf
AttentionOutput attend(const AttentionInput& input, const AttentionWants& wants = {},
                       const kernels::Kernels& kernels = kernels::best());

// What `attend` says where it meets NaN or Inf among the `what`.
void require_finite(bool finite, const char* what);

// Mean over each group's query heads: [n_kv_heads][n_rows].
template <typename T>
PerRow<T> group_mean(const PerRow<T>& heads, std::int64_t group_size) {
  PerRow<T> mean;
  for (std::size_t head = 0; head < heads.size(); ++head) {
    if (head % static_cast<std::size_t>(group_size) == 0) mean.emplace_back(heads[head].size());
    for (std::size_t row = 0; row < heads[head].size(); ++row) mean.back()[row] += heads[head][row];
  }
  for (auto& rows : mean)
    for (T& value : rows) value /= static_cast<T>(group_size);
  return mean;
}

// Half-open ranges of cached rows that queries see, per query.
struct VisibleRows {
  std::vector<std::int32_t> begin, end;
};

// What the queries of the last n_queries rows see of a KV head's rows: theirs and older ones, as far as the
// window reaches.
//   positions: (n_rows) true positions, ascending
VisibleRows visible_rows(std::span<const std::int32_t> positions, std::int64_t n_queries,
                         const AttentionRules& rules);

}  // namespace keyscope::capture

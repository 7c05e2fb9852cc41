#include "capture/inference/record_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>

#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {
namespace {

// Of some heads the first `n` rows, as float32: (heads.size(), n, head_dim).
std::vector<float> as_floats(const HostRows& rows, const std::vector<int>& heads, std::int64_t n) {
  const auto& kernels = kernels::of(rows.dtype);
  const std::int64_t n_values = n * rows.head_dim;
  std::vector<float> floats(heads.size() * static_cast<std::size_t>(n_values));
  at::parallel_for(0, static_cast<std::int64_t>(heads.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) {
      const auto head = static_cast<std::size_t>(heads[static_cast<std::size_t>(place)]);
      kernels.to_float(rows.heads[head], floats.data() + place * n_values, n_values);
    }
  });
  return floats;
}

// The query heads that read these KV heads.
std::vector<int> query_heads(const std::vector<int>& kv_heads, int group) {
  std::vector<int> heads;
  for (const int kv_head : kv_heads)
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) heads.push_back(head);
  return heads;
}

}  // namespace

void record_rows(const LayerArithmetic& layer, const LayerRecording& recording,
                 recording::LayerBlock& record) {
  const int n_kv_heads = layer.cache().n_heads();
  const std::vector<int> heads = recording.heads.list(n_kv_heads);
  const std::int64_t n = layer.n_queries();
  if (recording.keys) record.keys = as_floats(layer.block_rows(RowPart::kKeys), heads, n);
  if (recording.values) record.values = as_floats(layer.block_rows(RowPart::kValues), heads, n);
  if (!recording.queries) return;
  const HostRows queries = layer.block_queries();
  const int group = static_cast<int>(queries.heads.size()) / n_kv_heads;
  record.queries = as_floats(queries, query_heads(heads, group), n);
}

}  // namespace keyscope::capture

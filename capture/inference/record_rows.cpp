#include "capture/inference/record_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>

#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {
namespace {

// The last rows of every KV head: (n_kv_heads, n_queries, head_dim).
std::vector<float> newest_rows(const AttentionInput& input, const void* HeadRows::*part) {
  const auto& kernels = kernels::of(input.queries.scalar_type());
  const std::int64_t n = input.n_queries() * input.head_dim();
  std::vector<float> rows(input.heads.size() * static_cast<std::size_t>(n));
  at::parallel_for(
      0, static_cast<std::int64_t>(input.heads.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t head = begin; head < end; ++head) {
          const HeadRows& from = input.heads[static_cast<std::size_t>(head)];
          const std::int64_t offset = (from.n_rows() * input.head_dim() - n) * input.queries.element_size();
          kernels.to_float(static_cast<const std::byte*>(from.*part) + offset, rows.data() + head * n, n);
        }
      });
  return rows;
}

}  // namespace

void record_rows(const AttentionInput& input, const LayerRecording& recording,
                 recording::LayerBlock& record) {
  if (recording.keys) record.keys = newest_rows(input, &HeadRows::keys);
  if (recording.values) record.values = newest_rows(input, &HeadRows::values);
  if (!recording.queries) return;
  record.queries.resize(static_cast<std::size_t>(input.queries.numel()));
  const auto& kernels = kernels::of(input.queries.scalar_type());
  const std::int64_t n = input.n_queries() * input.head_dim();
  at::parallel_for(0, input.n_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
    kernels.to_float(static_cast<const std::byte*>(input.queries.const_data_ptr()) +
                         begin * n * input.queries.element_size(),
                     record.queries.data() + begin * n, (end - begin) * n);
  });
}

}  // namespace keyscope::capture

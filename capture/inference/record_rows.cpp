#include "capture/inference/record_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>

#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {
namespace {

// The last rows of KV heads `heads`: (heads.size(), n_queries, head_dim).
std::vector<float> newest_rows(const AttentionInput& input, const std::vector<int>& heads,
                               const void* HeadRows::*part) {
  const auto& kernels = kernels::of(input.queries.scalar_type());
  const std::int64_t n = input.n_queries() * input.head_dim();
  std::vector<float> rows(heads.size() * static_cast<std::size_t>(n));
  at::parallel_for(0, static_cast<std::int64_t>(heads.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) {
      const int head = heads[static_cast<std::size_t>(place)];
      const HeadRows& from = input.heads[static_cast<std::size_t>(head)];
      const std::int64_t offset = (from.n_rows() * input.head_dim() - n) * input.queries.element_size();
      kernels.to_float(static_cast<const std::byte*>(from.*part) + offset, rows.data() + place * n, n);
    }
  });
  return rows;
}

// The queries that read them: (heads.size() · G, n_queries, head_dim).
std::vector<float> group_queries(const AttentionInput& input, const std::vector<int>& heads) {
  const auto& kernels = kernels::of(input.queries.scalar_type());
  const std::int64_t n = input.n_queries() * input.head_dim(), group = input.group_size();
  const std::int64_t n_heads = static_cast<std::int64_t>(heads.size()) * group;
  std::vector<float> rows(static_cast<std::size_t>(n_heads * n));
  at::parallel_for(0, n_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) {
      const std::int64_t head = heads[static_cast<std::size_t>(place / group)] * group + place % group;
      kernels.to_float(static_cast<const std::byte*>(input.queries.const_data_ptr()) +
                           head * n * input.queries.element_size(),
                       rows.data() + place * n, n);
    }
  });
  return rows;
}

}  // namespace

void record_rows(const AttentionInput& input, const LayerRecording& recording,
                 recording::LayerBlock& record) {
  const std::vector<int> heads = recording.heads.list(static_cast<int>(input.heads.size()));
  if (recording.keys) record.keys = newest_rows(input, heads, &HeadRows::keys);
  if (recording.values) record.values = newest_rows(input, heads, &HeadRows::values);
  if (recording.queries) record.queries = group_queries(input, heads);
}

}  // namespace keyscope::capture

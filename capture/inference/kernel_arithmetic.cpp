#include "capture/inference/kernel_arithmetic.hpp"

#include <cstddef>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

namespace keyscope::capture {

using std::int64_t;

KernelLayer::KernelLayer(const Transformer& transformer, const LayerRows& rows)
    : transformer_(transformer),
      layer_(rows.layer),
      cache_positions_(rows.cache_positions),
      cache_(rows.capacities, transformer.config().head_dim, transformer.dtype()) {
  input_.rules = attention_rules(transformer.config(), layer_);
  input_.heads.resize(static_cast<std::size_t>(transformer.config().n_kv_heads));
}

void KernelLayer::append(const ProjectedBlock& block) {
  const ModelConfig& config = transformer_.config();
  input_.queries = at::empty({config.n_heads, block.n, config.head_dim}, transformer_.options());
  if (cache_positions_)
    append_by_place(block);
  else
    append_rotated(block);
}

// Keys are rotated by their true position, once, on their way into the cache.
void KernelLayer::append_rotated(const ProjectedBlock& block) {
  const RotaryTable table = transformer_.rope(layer_).table(block.first_position, block.n);
  at::parallel_for(0, cache_.n_heads(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      const KernelCache::NewRows rows = cache_.append(static_cast<int>(head), block.n, block.first_position);
      rotate_rows(slice(block, block.projections.keys, head), table, 0, rows.keys);
      copy_rows(slice(block, block.projections.values, head), rows.values);
      rotate_queries(block, head, table, 0);
      input_.heads[static_cast<std::size_t>(head)] = cache_.rows(static_cast<int>(head));
    }
  });
}

// Keys lie in the cache as they were projected, and are rotated by the place that they have there now: with
// StreamingLLM, positions then never exceed the cache, however long the text (arXiv 2309.17453, Section 3.2).
void KernelLayer::append_by_place(const ProjectedBlock& block) {
  const int64_t head_dim = transformer_.config().head_dim;
  for (int head = 0; head < cache_.n_heads(); ++head) {
    const KernelCache::NewRows rows = cache_.append(head, block.n, block.first_position);
    copy_rows(slice(block, block.projections.keys, head), rows.keys);
    copy_rows(slice(block, block.projections.values, head), rows.values);
  }
  const RotaryTable table = transformer_.rope(layer_).table(0, cache_.largest_rows());
  placed_keys_.resize(input_.heads.size());
  at::parallel_for(0, cache_.n_heads(), 1, [&](int64_t begin, int64_t end) {
    const c10::InferenceMode inference;  // a property of each thread
    for (int64_t head = begin; head < end; ++head) {
      const auto at = static_cast<std::size_t>(head);
      HeadRows rows = cache_.rows(static_cast<int>(head));
      at::Tensor& placed = placed_keys_[at];
      placed = at::empty({rows.n_rows(), head_dim}, transformer_.options());
      const HeadSlice lying{transformer_.dtype(), rows.keys, head_dim, rows.n_rows(), head_dim};
      rotate_rows(lying, table, 0, placed.mutable_data_ptr());
      rows.keys = placed.const_data_ptr();
      rotate_queries(block, head, table, rows.n_rows() - block.n);
      input_.heads[at] = rows;
    }
  });
}

// Of all query heads that share a KV head.
void KernelLayer::rotate_queries(const ProjectedBlock& block, int64_t kv_head, const RotaryTable& table,
                                 int64_t first) const {
  const int64_t group = input_.group_size();
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    rotate_rows(slice(block, block.projections.queries, head), table, first,
                input_.queries.select(0, head).mutable_data_ptr());
}

HeadSlice KernelLayer::slice(const ProjectedBlock& block, const at::Tensor& projected, int64_t head) const {
  const int64_t d = input_.head_dim(), first = block.offset * projected.size(1) + head * d;
  return {projected.scalar_type(),
          static_cast<const std::byte*>(projected.const_data_ptr()) + first * projected.element_size(),
          projected.size(1), block.n, d};
}

AttentionOutput KernelLayer::attend(const AttentionWants& wants) { return capture::attend(input_, wants); }

// Keys that are rotated by place are given as attention has seen them.
HostRows KernelLayer::cached_rows(RowPart part) const {
  HostRows rows{transformer_.dtype(), transformer_.config().head_dim};
  for (int head = 0; head < cache_.n_heads(); ++head) {
    if (cache_positions_ && part == RowPart::kKeys)
      rows.heads.push_back(input_.heads[static_cast<std::size_t>(head)].keys);
    else
      rows.heads.push_back(part == RowPart::kKeys ? cache_.rows(head).keys : cache_.rows(head).values);
  }
  return rows;
}

// The last of those that attention has seen.
HostRows KernelLayer::block_rows(RowPart part) const {
  HostRows rows{transformer_.dtype(), input_.head_dim()};
  for (const HeadRows& head : input_.heads) {
    const void* first = part == RowPart::kKeys ? head.keys : head.values;
    rows.heads.push_back(static_cast<const std::byte*>(first) +
                         (head.n_rows() - n_queries()) * rows.row_bytes());
  }
  return rows;
}

HostRows KernelLayer::block_queries() const {
  HostRows rows{transformer_.dtype(), input_.head_dim()};
  const auto* first = static_cast<const std::byte*>(input_.queries.const_data_ptr());
  for (int64_t head = 0; head < input_.n_heads(); ++head)
    rows.heads.push_back(first + head * n_queries() * rows.row_bytes());
  return rows;
}

void KernelLayer::end_block() {
  input_.queries.reset();
  placed_keys_.clear();
}

}  // namespace keyscope::capture

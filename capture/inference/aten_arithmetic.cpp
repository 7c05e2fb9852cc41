#include "capture/inference/aten_layer.hpp"

#include <cstddef>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

namespace keyscope::capture {
namespace {

using std::int64_t;

// Of rows (n_tokens, heads · head_dim) those of a block, head by head: (heads, n, head_dim).
at::Tensor block_heads(const ProjectedBlock& block, const at::Tensor& projected, int64_t head_dim) {
  return projected.narrow(0, block.offset, block.n).unflatten(1, {-1, head_dim}).transpose(0, 1);
}

// Half-split rotary positions, computed in float32 and rounded once.
//   x: (…, n, head_dim); cos, sin: (…, n, head_dim / 2), broadcast
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half).to(at::kFloat);
  const at::Tensor second = x.narrow(-1, half, half).to(at::kFloat);
  return at::cat({first * cos - second * sin, second * cos + first * sin}, -1).to(x.scalar_type());
}

// (heads, n, head_dim) on the host.
HostRows on_host(const at::Tensor& rows) {
  HostRows host{rows.scalar_type(), rows.size(2)};
  host.memory = rows.to(at::kCPU).contiguous();
  for (int64_t head = 0; head < rows.size(0); ++head)
    host.heads.push_back(host.memory.select(0, head).const_data_ptr());
  return host;
}

}  // namespace

AtenLayer::AtenLayer(const Transformer& transformer, const LayerRows& rows)
    : transformer_(transformer),
      layer_(rows.layer),
      cache_positions_(rows.cache_positions),
      cache_(rows.capacities, transformer.config().head_dim, transformer.options()) {
  input_.rules = attention_rules(transformer.config(), layer_);
}

void AtenLayer::append(const ProjectedBlock& block) {
  if (cache_positions_)
    append_by_place(block);
  else
    append_rotated(block);
  input_.values = cache_.values();
  input_.positions.clear();
  for (int head = 0; head < cache_.n_heads(); ++head) input_.positions.push_back(cache_.positions(head));
}

// Keys are rotated by their true position, once, on their way into the cache.
void AtenLayer::append_rotated(const ProjectedBlock& block) {
  const int64_t head_dim = transformer_.config().head_dim;
  const RotaryTable table = rotary_table(block.first_position, block.n);
  input_.queries = rotated(block_heads(block, block.projections.queries, head_dim), table.cos, table.sin);
  input_.new_keys = rotated(block_heads(block, block.projections.keys, head_dim), table.cos, table.sin);
  input_.new_values = block_heads(block, block.projections.values, head_dim);
  cache_.append(input_.new_keys, input_.new_values, block.first_position);
  input_.keys = cache_.keys();
}

// Keys lie in the cache as they were projected, and are rotated by the place that they have there now: see
// KernelLayer. A KV head's queries have the places of its own last rows.
void AtenLayer::append_by_place(const ProjectedBlock& block) {
  const int64_t head_dim = transformer_.config().head_dim;
  input_.new_values = block_heads(block, block.projections.values, head_dim);
  cache_.append(block_heads(block, block.projections.keys, head_dim), input_.new_values,
                block.first_position);
  const RotaryTable table = rotary_table(0, cache_.largest_rows());
  input_.keys = rotated(cache_.keys(), table.cos, table.sin);
  const at::Tensor places = cache_.last_rows(block.n);
  input_.new_keys = gather_rows(input_.keys, places);
  const at::Tensor cos = table.cos.index({places}).unsqueeze(1), sin = table.sin.index({places}).unsqueeze(1);
  const at::Tensor queries = block_heads(block, block.projections.queries, head_dim);
  input_.queries = rotated(queries.unflatten(0, {cache_.n_heads(), -1}), cos, sin).flatten(0, 1);
}

// Made on the host, so that angles are the same on every device.
RotaryTable AtenLayer::rotary_table(int64_t first, int64_t n) const {
  const RotaryTable table = transformer_.rope(layer_).table(first, n);
  const at::Device device = transformer_.options().device();
  return {table.cos.to(device), table.sin.to(device)};
}

AttentionOutput AtenLayer::attend(const AttentionWants& wants) { return aten_attend(input_, wants); }

// Keys that are rotated by place are given as attention has seen them.
HostRows AtenLayer::cached_rows(RowPart part) const {
  if (part == RowPart::kValues) return on_host(cache_.values());
  return on_host(cache_positions_ ? input_.keys : cache_.keys());
}

HostRows AtenLayer::block_rows(RowPart part) const {
  return on_host(part == RowPart::kKeys ? input_.new_keys : input_.new_values);
}

HostRows AtenLayer::block_queries() const { return on_host(input_.queries); }

void AtenLayer::end_block() {
  const AttentionRules rules = input_.rules;
  input_ = {};
  input_.rules = rules;
}

}  // namespace keyscope::capture

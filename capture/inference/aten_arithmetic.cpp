#include "capture/inference/aten_arithmetic.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

at::Tensor spread(const at::Tensor& rows, std::int64_t width) {
  return rows.unsqueeze(-1).expand({rows.size(0), rows.size(1), width});
}

}  // namespace

// Zeros: what lies past a head's rows is multiplied by a weight of zero, and has to be a number.
AtenCache::AtenCache(std::span<const std::int64_t> capacities, std::int64_t head_dim,
                     const at::TensorOptions& options, const analysis::CacheFormat& format, bool heads_share)
    : KvCache(capacities, format, heads_share) {
  const auto n_heads = static_cast<std::int64_t>(capacities.size());
  const std::int64_t largest = capacities.empty() ? 0 : std::ranges::max(capacities);
  keys_ = at::zeros({n_heads, largest, head_dim}, options);
  values_ = at::zeros({n_heads, largest, head_dim}, options);
}

void AtenCache::append(const at::Tensor& keys, const at::Tensor& values, std::int64_t first_position) {
  const std::int64_t n = keys.size(1);
  for (int head = 0; head < n_heads(); ++head) add_rows(head, n, first_position);
  if (alike() && !uneven_rooms()) {
    keys_.narrow(1, largest_rows() - n, n).copy_(keys);
    values_.narrow(1, largest_rows() - n, n).copy_(values);
  } else {
    const at::Tensor to = (last_rows(n) + begins()).flatten();
    keys_.flatten(0, 1).index_copy_(0, to, keys.flatten(0, 1));
    values_.flatten(0, 1).index_copy_(0, to, values.flatten(0, 1));
  }
  for (int head = 0; head < n_heads(); ++head) rows_filled(head, n);
}

bool AtenCache::alike() const {
  for (int head = 1; head < n_heads(); ++head)
    if (n_rows(head) != n_rows(0)) return false;
  return true;
}

at::Tensor AtenCache::part_rows(int head, RowPart part, RowSpan rows) const {
  return (part == RowPart::kKeys ? keys_ : values_)
      .flatten(0, 1)
      .narrow(0, begin(head) + rows.first, rows.size());
}

std::int64_t AtenCache::begin(int head) const {
  return uneven_rooms() ? first_row(head) : head * keys_.size(1);
}

at::Tensor AtenCache::begins() const {
  const at::Tensor begins = at::empty({n_heads(), 1}, at::TensorOptions().dtype(at::kLong));
  for (int head = 0; head < n_heads(); ++head) begins.mutable_data_ptr<std::int64_t>()[head] = begin(head);
  return begins.to(keys_.device());
}

// What comes past a head's rows is whatever lies there.
at::Tensor AtenCache::side_by_side(const at::Tensor& rows) const {
  const std::int64_t n = largest_rows(), n_all = rows.size(0) * rows.size(1);
  if (!uneven_rooms()) return rows.narrow(1, 0, n);
  const at::Tensor index =
      (at::arange(n, at::TensorOptions().dtype(at::kLong).device(rows.device())) + begins())
          .clamp_max_(n_all - 1);
  return rows.flatten(0, 1).index_select(0, index.flatten()).unflatten(0, {n_heads(), n});
}

void AtenCache::round(int head, RowPart part, RowSpan rows, const analysis::RowRounding& rounding) {
  const at::Tensor to = part_rows(head, part, rows);
  to.copy_(rounded_rows(to, rounding));
}

float AtenCache::largest_magnitude(int head, RowPart part, RowSpan rows) const {
  return part_rows(head, part, rows).abs().max().to(at::kFloat).item<float>();
}

at::Tensor AtenCache::last_rows(std::int64_t n) const {
  const at::Tensor rows = at::empty({n_heads(), n}, at::TensorOptions().dtype(at::kLong));
  auto* row = rows.mutable_data_ptr<std::int64_t>();
  for (int head = 0; head < n_heads(); ++head)
    for (std::int64_t i = 0; i < n; ++i) *row++ = n_rows(head) - n + i;
  return rows.to(keys_.device());
}

std::int64_t AtenCache::row_bytes() const {
  return static_cast<std::int64_t>(keys_.nbytes() + values_.nbytes());
}

void AtenCache::move_rows(const RetainedRows& retained) {
  std::vector<std::int64_t> from, to;
  for (int head = 0; head < n_heads(); ++head)
    for (std::size_t row = 0; row < retained[head].size(); ++row) {
      if (std::cmp_equal(retained[head][row], row)) continue;
      from.push_back(begin(head) + retained[head][row]);
      to.push_back(begin(head) + static_cast<std::int64_t>(row));
    }
  move(from, to);
}

void AtenCache::move_heads(std::span<const std::int64_t> first) {
  std::vector<std::int64_t> from, to;
  for (int head = 0; head < n_heads(); ++head)
    for (std::int64_t row = 0; row < n_rows(head); ++row) {
      from.push_back(begin(head) + row);
      to.push_back(first[head] + row);
    }
  move(from, to);
}

// Rows by where they lie, those of all heads counted one after another.
void AtenCache::move(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  if (from.empty()) return;
  const auto there = [&](const std::vector<std::int64_t>& rows) {
    return at::tensor(rows, at::TensorOptions().dtype(at::kLong)).to(keys_.device());
  };
  const at::Tensor source = there(from), target = there(to);
  for (const at::Tensor& rows : {keys_.flatten(0, 1), values_.flatten(0, 1)})
    rows.index_copy_(0, target, rows.index_select(0, source));
}

void AtenCache::retain_there(const at::Tensor& rows, std::function<RetainedRows()> on_host) {
  keys_.narrow(1, 0, rows.size(1)).copy_(gather_rows(keys_, rows));
  values_.narrow(1, 0, rows.size(1)).copy_(gather_rows(values_, rows));
  moved(std::vector<std::int64_t>(n_heads(), rows.size(1)), std::move(on_host));
}

void AtenCache::copy_keys_and_values(const KvCache& from) {
  const auto& other = dynamic_cast<const AtenCache&>(from);
  for (int head = 0; head < n_heads(); ++head)
    for (const RowPart part : {RowPart::kKeys, RowPart::kValues}) {
      const RowSpan rows{0, n_rows(head)};
      part_rows(head, part, rows).copy_(other.part_rows(head, part, rows));
    }
}

void AtenCache::take_memory(std::int64_t n_rows) {
  const std::int64_t n_held = largest_rows();
  const auto moved_to = [&](const at::Tensor& rows) {
    at::Tensor room = at::zeros({rows.size(0), n_rows, rows.size(2)}, rows.options());
    room.narrow(1, 0, n_held).copy_(rows.narrow(1, 0, n_held));
    return room;
  };
  keys_ = moved_to(keys_);
  values_ = moved_to(values_);
}

at::Tensor gather_rows(const at::Tensor& tensor, const at::Tensor& rows) {
  return at::gather(tensor, 1, spread(rows, tensor.size(2)));
}

namespace {

using std::int64_t;

// Numbers of one scale along `dim`, in float32.
at::Tensor rounded_to_integers(const at::Tensor& x, int64_t dim, int bits) {
  const double levels = (1 << bits) - 1;
  const at::Tensor low = x.amin(dim, true), step = (x.amax(dim, true) - low).div(levels);
  const at::Tensor codes = (x - low).div_(step).round_().clamp_(0, levels);
  return at::where(step < std::numeric_limits<float>::min(), low + 0.0, codes.mul_(step).add_(low));
}

// Of two kinds of group, channels of one scale: those that fill a group, and a last one that does not.
at::Tensor rounded_by_token(const at::Tensor& x, int bits) {
  const int64_t width = x.size(1), whole = width / analysis::kQuantisedGroup * analysis::kQuantisedGroup;
  std::vector<at::Tensor> parts;
  if (whole > 0)
    parts.push_back(rounded_to_integers(
                        x.narrow(1, 0, whole).reshape({x.size(0), -1, analysis::kQuantisedGroup}), 2, bits)
                        .flatten(1));
  if (whole < width) parts.push_back(rounded_to_integers(x.narrow(1, whole, width - whole), 1, bits));
  return at::cat(parts, 1);
}

// The cast to fp8 makes NaN of what is beyond its largest number.
at::Tensor rounded_to_fp8(const at::Tensor& x, const at::Tensor& scale) {
  const at::Tensor scaled = x.div(scale);
  const at::Tensor rounded =
      scaled.clamp(-analysis::kLargestE4m3, analysis::kLargestE4m3).to(at::kFloat8_e4m3fn).to(at::kFloat);
  return at::where(scaled.isfinite(), rounded, scaled).mul_(scale);
}

at::Tensor fp8_scale(const at::Tensor& x, const analysis::RowRounding& rounding) {
  if (rounding.format.scales == analysis::CacheScales::kHead)
    return at::full({1}, rounding.scale, x.options());
  const at::Tensor scale = x.abs().amax(1, true).div(analysis::kLargestE4m3);
  return at::where(scale < std::numeric_limits<float>::min(), at::ones_like(scale), scale);
}

}  // namespace

at::Tensor rounded_rows(const at::Tensor& rows, const analysis::RowRounding& rounding) {
  const at::Tensor x = rows.to(at::kFloat);
  const int bits = rounding.format.bits();
  at::Tensor rounded;
  if (rounding.format.dtype == analysis::CacheDtype::kFp8)
    rounded = rounded_to_fp8(x, fp8_scale(x, rounding));
  else if (rounding.by_channel())
    rounded =
        rounded_to_integers(x.reshape({-1, analysis::kQuantisedGroup, x.size(1)}), 1, bits).flatten(0, 1);
  else
    rounded = rounded_by_token(x, bits);
  return rounded.to(rows.scalar_type());
}

namespace {

// Of rows (n_tokens, heads · head_dim) those of a block, head by head: (heads, n, head_dim).
at::Tensor block_heads(const ProjectedBlock& block, const at::Tensor& projected, int64_t head_dim) {
  return projected.narrow(0, block.offset, block.n).unflatten(1, {-1, head_dim}).transpose(0, 1);
}

// (heads, n, head_dim) of the host, contiguous.
HostRows host_rows(const at::Tensor& rows) {
  HostRows host{rows.scalar_type(), rows.size(2)};
  host.memory = rows;
  for (int64_t head = 0; head < rows.size(0); ++head)
    host.heads.push_back(host.memory.select(0, head).const_data_ptr());
  return host;
}

}  // namespace

AtenLayer::AtenLayer(const AtenTransformer& transformer, const LayerRows& rows)
    : transformer_(transformer),
      layer_(rows.layer),
      cache_positions_(rows.cache_positions),
      heads_(transformer.config().heads(rows.layer)),
      cache_(rows.capacities, heads_.head_dim, transformer.options(rows.layer), rows.cache_format,
             rows.heads_share),
      side_stream_(transformer.options(rows.layer).device()) {
  input_.rules = attention_rules(transformer.config(), layer_);
}

void AtenLayer::append(const ProjectedBlock& block) {
  first_position_ = block.first_position;
  if (cache_positions_)
    append_by_place(block);
  else
    append_rotated(block);
  input_.values = cache_.values();
  input_.sinks = block.projections.sinks;
  input_.side_stream = &side_stream_;
  input_.head_rows.clear();
  for (int head = 0; head < cache_.n_heads(); ++head) input_.head_rows.push_back(cache_.n_rows(head));
  input_.positions = [this](int head) { return cache_.positions(head); };
}

// Keys are rotated by their true position, once, on their way into the cache.
void AtenLayer::append_rotated(const ProjectedBlock& block) {
  const auto heads = [&](const at::Tensor& projected) {
    return block_heads(block, projected, heads_.head_dim);
  };
  input_.queries = heads(block.projections.queries);
  input_.new_keys = heads(block.projections.keys);
  input_.new_values = heads(block.projections.values);
  if (transformer_.config().rotates(layer_)) {
    input_.queries = transformer_.query_rotation(layer_, block.first_position, block.n)(input_.queries);
    input_.new_keys = transformer_.rotation(layer_, block.first_position, block.n)(input_.new_keys);
  }
  cache_.append(input_.new_keys, input_.new_values, block.first_position);
  input_.keys = cache_.keys();
  if (!cache_.format().quantises()) return;
  const at::Tensor places = cache_.last_rows(block.n);
  input_.new_keys = gather_rows(input_.keys, places);
  input_.new_values = gather_rows(cache_.values(), places);
}

// Keys lie in the cache as they were projected, and are rotated by the place that they have there now: see
// KernelLayer. A KV head's queries have the places of its own last rows.
void AtenLayer::append_by_place(const ProjectedBlock& block) {
  const int64_t head_dim = heads_.head_dim;
  input_.new_values = block_heads(block, block.projections.values, head_dim);
  input_.queries = block_heads(block, block.projections.queries, head_dim);
  cache_.append(block_heads(block, block.projections.keys, head_dim), input_.new_values,
                block.first_position);
  input_.keys = cache_.keys();
  const at::Tensor places = cache_.last_rows(block.n);
  if (transformer_.config().rotates(layer_)) {
    const HeadRotation by_place = transformer_.rotation(layer_, 0, cache_.largest_rows());
    input_.keys = by_place(input_.keys);
    const auto of_places = [&](const at::Tensor& table) { return table.index({places}).unsqueeze(1); };
    const RotaryTable of_queries = transformer_.rope(layer_).query_table(
        {of_places(by_place.cos), of_places(by_place.sin)}, block.first_position);
    const HeadRotation rotation{of_queries.cos, of_queries.sin, by_place.partner};
    input_.queries = rotation(input_.queries.unflatten(0, {cache_.n_heads(), -1})).flatten(0, 1);
  }
  input_.new_keys = gather_rows(input_.keys, places);
  if (cache_.format().quantises()) input_.new_values = gather_rows(cache_.values(), places);
}

ExpectedRows AtenLayer::expect(const WantedRows& rows) {
  const auto begin = [&](const at::Tensor& of_heads) {
    return [copy = HostCopy(of_heads, side_stream_)] { return host_rows(copy.arrived()); };
  };
  ExpectedRows expected;
  if (rows.keys) expected.keys = begin(input_.new_keys);
  if (rows.values) expected.values = begin(input_.new_values);
  if (rows.queries) expected.queries = begin(input_.queries);
  return expected;
}

AttentionOutput AtenLayer::attend(const AttentionWants& wants) {
  AttentionOutput output = aten_attend(input_, wants);
  if (output.unchecked.defined())
    unchecked_.emplace_back(first_position_, HostCopy(output.unchecked, side_stream_));
  return output;
}

void AtenLayer::check() {
  const auto blocks = std::exchange(unchecked_, {});
  for (const auto& [first_position, sums] : blocks) try {
      require_finite_sums(sums.arrived());
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("tokens from {}: {}", first_position, error.what()));
    }
}

// Keys that are rotated by place are given as attention has seen them.
at::Tensor AtenLayer::cached_tensor(RowPart part) const {
  if (part == RowPart::kValues) return cache_.values();
  return cache_positions_ ? input_.keys : cache_.keys();
}

HostRows AtenLayer::cached_rows(RowPart part) const {
  return host_rows(cached_tensor(part).to(at::kCPU).contiguous());
}

at::Tensor AtenLayer::cached_values(int kv_head, RowSpan rows) const {
  return cache_.part_rows(kv_head, RowPart::kValues, rows);
}

at::Tensor AtenLayer::last_queries(int64_t n) const {
  return input_.queries.narrow(1, n_queries() - n, n).clone(at::MemoryFormat::Contiguous);
}

void AtenLayer::count_queries(const ProjectedBlock& block, const analysis::Rotation& rotation) {
  moments_.add(block_heads(block, block.projections.queries, heads_.head_dim), rotation);
}

void AtenLayer::copy_moments(const LayerArithmetic& from) {
  moments_ = dynamic_cast<const AtenLayer&>(from).moments_.copy();
}

void AtenLayer::end_block() {
  const AttentionRules rules = input_.rules;
  input_ = {};
  input_.rules = rules;
}

}  // namespace keyscope::capture

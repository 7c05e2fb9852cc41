#include "capture/inference/kernel_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include "capture/kernels/kernels.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

std::size_t bytes_of_a_row(const at::Tensor& rows) { return rows.size(1) * rows.element_size(); }

std::byte* row_at(const at::Tensor& rows, std::int64_t row) {
  return static_cast<std::byte*>(rows.mutable_data_ptr()) + row * bytes_of_a_row(rows);
}

// Of the head whose rows begin at `first`. Ascending order makes every move safe.
void move_rows_up(const at::Tensor& tensor, std::int64_t first, std::span<const std::int32_t> retained) {
  std::byte* data = row_at(tensor, first);
  const std::size_t n_bytes = bytes_of_a_row(tensor);
  for (std::size_t to = 0; to < retained.size(); ++to) {
    const auto from = static_cast<std::size_t>(retained[to]);
    if (from != to) std::memcpy(data + to * n_bytes, data + from * n_bytes, n_bytes);
  }
}

// Rows [first, first + n) of a table.
RotaryTable part_of(const RotaryTable& table, std::int64_t first, std::int64_t n) {
  if (!table.cos.defined()) return table;
  return {table.cos.narrow(0, first, n), table.sin.narrow(0, first, n)};
}

}  // namespace

KernelCache::KernelCache(std::span<const std::int64_t> capacities, std::int64_t head_dim,
                         at::ScalarType dtype, const analysis::CacheFormat& format,
                         const std::shared_ptr<SharedMemory>& memory, bool heads_share)
    : KvCache(capacities, format, heads_share),
      head_dim_(head_dim),
      dtype_(dtype),
      memory_(memory),
      keys_(room(total_capacity())),
      values_(room(total_capacity())) {}

at::Tensor KernelCache::room(std::int64_t n_rows) const {
  const auto options = at::TensorOptions().dtype(dtype_);
  if (memory_ == nullptr) return at::empty({n_rows, head_dim_}, options);
  const auto bytes = memory_->take(n_rows * head_dim_ * element_bytes());
  return at::from_blob(
      bytes.get(), {n_rows, head_dim_}, [bytes](void*) {}, options);
}

KernelCache::NewRows KernelCache::append(int head, std::int64_t n, std::int64_t first_position) {
  const std::int64_t first = add_rows(head, n, first_position);
  return {row(head, RowPart::kKeys, first), row(head, RowPart::kValues, first)};
}

HeadRows KernelCache::rows(int head) const {
  return {row(head, RowPart::kKeys, 0), row(head, RowPart::kValues, 0), positions(head)};
}

at::Tensor KernelCache::values(int head, RowSpan rows) const {
  return values_.narrow(0, first_row(head) + rows.first, rows.size());
}

std::int64_t KernelCache::row_bytes() const {
  return static_cast<std::int64_t>(keys_.nbytes() + values_.nbytes());
}

std::int64_t KernelCache::element_bytes() const {
  return static_cast<std::int64_t>(c10::elementSize(dtype_));
}

std::byte* KernelCache::row(int head, RowPart part, std::int64_t index) const {
  return row_at(part == RowPart::kKeys ? keys_ : values_, first_row(head) + index);
}

std::vector<float> KernelCache::as_floats(int head, RowPart part, RowSpan rows) const {
  std::vector<float> floats(rows.size() * head_dim_);
  kernels::of(dtype_).to_float(row(head, part, rows.first), floats.data(), std::ssize(floats));
  return floats;
}

void KernelCache::round(int head, RowPart part, RowSpan rows, const analysis::RowRounding& rounding) {
  std::vector<float> floats = as_floats(head, part, rows);
  analysis::round_rows(floats.data(), rows.size(), head_dim_, rounding);
  kernels::of(dtype_).from_float(floats.data(), row(head, part, rows.first), std::ssize(floats));
}

float KernelCache::largest_magnitude(int head, RowPart part, RowSpan rows) const {
  float largest = 0;
  for (const float x : as_floats(head, part, rows)) largest = std::max(largest, std::abs(x));
  return largest;
}

void KernelCache::move_rows(const RetainedRows& retained) {
  at::parallel_for(0, n_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto head = static_cast<int>(begin); head < end; ++head) {
      move_rows_up(keys_, first_row(head), retained[head]);
      move_rows_up(values_, first_row(head), retained[head]);
    }
  });
}

void KernelCache::copy_keys_and_values(const KvCache& from) {
  const auto& other = dynamic_cast<const KernelCache&>(from);
  for (int head = 0; head < n_heads(); ++head)
    for (const RowPart part : {RowPart::kKeys, RowPart::kValues})
      std::memcpy(row(head, part, 0), other.row(head, part, 0), n_rows(head) * bytes_of_a_row(keys_));
}

void KernelCache::take_memory(std::int64_t n_rows) {
  for (const RowPart part : {RowPart::kKeys, RowPart::kValues}) {
    const at::Tensor larger = room(n_heads() * n_rows);
    at::parallel_for(0, n_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto head = static_cast<int>(begin); head < end; ++head)
        std::memcpy(row_at(larger, head * n_rows), row(head, part, 0),
                    KvCache::n_rows(head) * bytes_of_a_row(larger));
    });
    (part == RowPart::kKeys ? keys_ : values_) = larger;
  }
}

// Down from the first head on, up from the last one on: so no head is moved onto one that is yet to move.
void KernelCache::move_heads(std::span<const std::int64_t> first) {
  const auto move = [&](const at::Tensor& rows, int head) {
    std::memmove(row_at(rows, first[head]), row_at(rows, first_row(head)),
                 n_rows(head) * bytes_of_a_row(rows));
  };
  at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const at::Tensor& rows = part == 0 ? keys_ : values_;
      for (int head = 0; head < n_heads(); ++head)
        if (first[head] < first_row(head)) move(rows, head);
      for (int head = n_heads() - 1; head >= 0; --head)
        if (first[head] > first_row(head)) move(rows, head);
    }
  });
}

using std::int64_t;

KernelLayer::KernelLayer(const Transformer& transformer, const LayerRows& rows)
    : transformer_(transformer),
      layer_(rows.layer),
      cache_positions_(rows.cache_positions),
      heads_(transformer.config().heads(rows.layer)),
      cache_(rows.capacities, heads_.head_dim, transformer.dtype(), rows.cache_format,
             transformer.dtype() == at::kFloat ? rows.memory : nullptr, rows.heads_share) {
  input_.rules = attention_rules(transformer.config(), layer_);
  input_.heads.resize(heads_.n_kv_heads);
}

void KernelLayer::append(const ProjectedBlock& block) {
  const ModelConfig& config = transformer_.config();
  input_.queries = at::empty({config.n_heads, block.n, heads_.head_dim}, transformer_.options());
  input_.sinks = block.projections.sinks;
  if (cache_positions_)
    append_by_place(block);
  else
    append_rotated(block);
}

// Keys are rotated by their true position, once, on their way into the cache.
void KernelLayer::append_rotated(const ProjectedBlock& block) {
  const RotaryTable table = rotary_table(block.first_position, block.n);
  const RotaryTable of_queries = query_table(table, block.first_position);
  at::parallel_for(0, cache_.n_heads(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      const KernelCache::NewRows rows = cache_.append(static_cast<int>(head), block.n, block.first_position);
      rotate_rows(slice(block, block.projections.keys, head), table, interleaved(), rows.keys);
      copy_rows(slice(block, block.projections.values, head), rows.values);
      cache_.rows_filled(static_cast<int>(head), block.n);
      rotate_queries(block, head, of_queries);
      input_.heads[head] = cache_.rows(static_cast<int>(head));
    }
  });
}

// Keys lie in the cache as they were projected, and are rotated by the place that they have there now: with
// StreamingLLM, positions then never exceed the cache, however long the text (arXiv 2309.17453, Section 3.2).
void KernelLayer::append_by_place(const ProjectedBlock& block) {
  const int64_t head_dim = heads_.head_dim;
  for (int head = 0; head < cache_.n_heads(); ++head) {
    const KernelCache::NewRows rows = cache_.append(head, block.n, block.first_position);
    copy_rows(slice(block, block.projections.keys, head), rows.keys);
    copy_rows(slice(block, block.projections.values, head), rows.values);
    cache_.rows_filled(head, block.n);
  }
  const RotaryTable table = rotary_table(0, cache_.largest_rows());
  placed_keys_.resize(input_.heads.size());
  at::parallel_for(0, cache_.n_heads(), 1, [&](int64_t begin, int64_t end) {
    const c10::InferenceMode inference;  // a property of each thread
    for (int64_t head = begin; head < end; ++head) {
      HeadRows rows = cache_.rows(static_cast<int>(head));
      at::Tensor& placed = placed_keys_[head];
      placed = at::empty({rows.n_rows(), head_dim}, transformer_.options());
      const HeadSlice lying{transformer_.dtype(), rows.keys, head_dim, rows.n_rows(), head_dim};
      rotate_rows(lying, part_of(table, 0, rows.n_rows()), interleaved(), placed.mutable_data_ptr());
      rows.keys = placed.const_data_ptr();
      const RotaryTable last = part_of(table, rows.n_rows() - block.n, block.n);
      rotate_queries(block, head, query_table(last, block.first_position));
      input_.heads[head] = rows;
    }
  });
}

// Of all query heads that share a KV head.
void KernelLayer::rotate_queries(const ProjectedBlock& block, int64_t kv_head,
                                 const RotaryTable& table) const {
  const int64_t group = input_.group_size();
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    rotate_rows(slice(block, block.projections.queries, head), table, interleaved(),
                input_.queries.select(0, head).mutable_data_ptr());
}

// Of positions or places first, first + 1, …; undefined where the layer does not rotate.
RotaryTable KernelLayer::rotary_table(int64_t first, int64_t n) const {
  if (!transformer_.config().rotates(layer_)) return {};
  return transformer_.rope(layer_).table(first, n);
}

RotaryTable KernelLayer::query_table(const RotaryTable& table, int64_t first_position) const {
  return table.cos.defined() ? transformer_.rope(layer_).query_table(table, first_position) : table;
}

HeadSlice KernelLayer::slice(const ProjectedBlock& block, const at::Tensor& projected, int64_t head) const {
  const int64_t d = input_.head_dim(), first = block.offset * projected.size(1) + head * d;
  return {projected.scalar_type(),
          static_cast<const std::byte*>(projected.const_data_ptr()) + first * projected.element_size(),
          projected.size(1), block.n, d};
}

ExpectedRows KernelLayer::expect(const WantedRows& rows) {
  ExpectedRows expected;
  if (rows.keys) expected.keys = [this] { return block_rows(RowPart::kKeys); };
  if (rows.values) expected.values = [this] { return block_rows(RowPart::kValues); };
  if (rows.queries) expected.queries = [this] { return block_queries(); };
  return expected;
}

AttentionOutput KernelLayer::attend(const AttentionWants& wants) { return capture::attend(input_, wants); }

// Keys that are rotated by place are given as attention has seen them.
HostRows KernelLayer::cached_rows(RowPart part) const {
  HostRows rows{transformer_.dtype(), heads_.head_dim};
  for (int head = 0; head < cache_.n_heads(); ++head) {
    if (cache_positions_ && part == RowPart::kKeys)
      rows.heads.push_back(input_.heads[head].keys);
    else
      rows.heads.push_back(part == RowPart::kKeys ? cache_.rows(head).keys : cache_.rows(head).values);
  }
  return rows;
}

// The last of those that attention has seen.
at::Tensor KernelLayer::cached_values(int kv_head, RowSpan rows) const {
  return cache_.values(kv_head, rows);
}

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

at::Tensor KernelLayer::last_queries(int64_t n) const {
  return input_.queries.narrow(1, n_queries() - n, n).clone();
}

void KernelLayer::count_queries(const ProjectedBlock& block, const analysis::Rotation& rotation) {
  const int64_t n_heads = transformer_.config().n_heads, n = block.n;
  moments_.resize(n_heads);
  const at::Tensor queries = block.projections.queries.narrow(0, block.offset, n)
                                 .to(at::kFloat)
                                 .view({n, n_heads, -1})
                                 .transpose(0, 1)
                                 .contiguous();
  const int64_t d = queries.size(2);
  at::parallel_for(0, n_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head)
      moments_[head].add(view_rows(queries.const_data_ptr<float>() + head * n * d, n, d), rotation);
  });
}

void KernelLayer::copy_moments(const LayerArithmetic& from) {
  moments_ = dynamic_cast<const KernelLayer&>(from).moments_;
}

void KernelLayer::end_block() {
  input_.queries.reset();
  placed_keys_.clear();
}

void rotate_rows(const HeadSlice& rows, const RotaryTable& table, bool interleaved, void* out) {
  if (!table.cos.defined()) return copy_rows(rows, out);
  kernels::of(rows.dtype)
      .rotate({.in = rows.first,
               .in_stride = rows.stride,
               .cos = table.cos.const_data_ptr<float>(),
               .sin = table.sin.const_data_ptr<float>(),
               .out = out,
               .out_stride = rows.head_dim,
               .rows = rows.n,
               .head_dim = rows.head_dim,
               .rotary_dim = 2 * table.cos.size(1),
               .interleaved = interleaved});
}

void copy_rows(const HeadSlice& rows, void* out) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(rows.dtype));
  const auto* from = static_cast<const std::byte*>(rows.first);
  auto* to = static_cast<std::byte*>(out);
  const auto n_bytes = static_cast<std::size_t>(rows.head_dim * width);
  for (std::int64_t row = 0; row < rows.n; ++row)
    std::memcpy(to + row * rows.head_dim * width, from + row * rows.stride * width, n_bytes);
}

}  // namespace keyscope::capture

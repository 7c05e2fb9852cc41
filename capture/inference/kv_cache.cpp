#include "capture/inference/kv_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

std::size_t row_bytes(const at::Tensor& rows) {
  return static_cast<std::size_t>(rows.size(1)) * rows.element_size();
}

// Moves rows up to where they belong; ascending order makes every move safe.
void move_rows(const at::Tensor& tensor, std::span<const std::int32_t> retained) {
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const std::size_t n_bytes = row_bytes(tensor);
  for (std::size_t to = 0; to < retained.size(); ++to) {
    const auto from = static_cast<std::size_t>(retained[to]);
    if (from != to) std::memcpy(data + to * n_bytes, data + from * n_bytes, n_bytes);
  }
}

template <typename T>
void move_entries(std::vector<T>& entries, std::span<const std::int32_t> retained) {
  for (std::size_t to = 0; to < retained.size(); ++to)
    entries[to] = entries[static_cast<std::size_t>(retained[to])];
}

std::byte* row_at(const at::Tensor& rows, std::int64_t row) {
  return static_cast<std::byte*>(rows.mutable_data_ptr()) + static_cast<std::size_t>(row) * row_bytes(rows);
}

}  // namespace

KvCache::KvCache(std::span<const std::int64_t> capacities, std::int64_t head_dim, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  for (const std::int64_t capacity : capacities) {
    const auto n = static_cast<std::size_t>(capacity);
    heads_.push_back({.keys = at::empty({capacity, head_dim}, options),
                      .values = at::empty({capacity, head_dim}, options),
                      .positions = std::vector<std::int32_t>(n),
                      .queries = std::vector<std::int32_t>(n),
                      .received = std::vector<double>(n)});
  }
}

std::int64_t KvCache::largest_rows() const {
  std::int64_t largest = 0;
  for (const Head& head : heads_) largest = std::max(largest, head.n_rows);
  return largest;
}

std::int64_t KvCache::n_bytes() const {
  constexpr std::size_t kEntry = sizeof(std::int32_t) + sizeof(double) + sizeof(std::int32_t);
  std::size_t n = 0;
  for (const Head& head : heads_)
    n += head.keys.nbytes() + head.values.nbytes() + head.positions.size() * kEntry;
  return static_cast<std::int64_t>(n);
}

KvCache::NewRows KvCache::append(int head, std::int64_t n, std::int64_t first_position) {
  Head& to = at(head);
  if (to.n_rows + n > to.keys.size(0))
    throw InvalidInput(fmt::format("KV cache: {} rows do not fit into the {} that are free", n,
                                   to.keys.size(0) - to.n_rows));
  const auto first = static_cast<std::ptrdiff_t>(to.n_rows);
  std::iota(to.positions.begin() + first, to.positions.begin() + first + n,
            static_cast<std::int32_t>(first_position));
  std::fill_n(to.received.begin() + first, n, 0.0);
  std::fill_n(to.queries.begin() + first, n, 0);
  to.n_rows += n;
  return {row_at(to.keys, first), row_at(to.values, first)};
}

HeadRows KvCache::rows(int head) const {
  return {at(head).keys.const_data_ptr(), at(head).values.const_data_ptr(), positions(head)};
}

void KvCache::retain(int head, std::span<const std::int32_t> rows) {
  Head& kept = at(head);
  move_rows(kept.keys, rows);
  move_rows(kept.values, rows);
  move_entries(kept.positions, rows);
  move_entries(kept.received, rows);
  move_entries(kept.queries, rows);
  kept.n_rows = static_cast<std::int64_t>(rows.size());
}

void KvCache::drop_front(int head, std::int64_t n) {
  if (n == 0) return;
  std::vector<std::int32_t> rest(static_cast<std::size_t>(n_rows(head) - n));
  std::iota(rest.begin(), rest.end(), static_cast<std::int32_t>(n));
  retain(head, rest);
}

}  // namespace keyscope::capture

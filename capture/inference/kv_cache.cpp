#include "capture/inference/kv_cache.hpp"

#include <cstddef>
#include <cstring>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

// Moves rows up to where they belong; ascending order makes every move safe.
void move_rows(std::byte* data, std::size_t row_bytes, std::span<const std::int32_t> retained) {
  for (std::size_t to = 0; to < retained.size(); ++to) {
    const auto from = static_cast<std::size_t>(retained[to]);
    if (from != to) std::memcpy(data + to * row_bytes, data + from * row_bytes, row_bytes);
  }
}

template <typename T>
void move_entries(std::vector<T>& entries, std::span<const std::int32_t> retained) {
  for (std::size_t to = 0; to < retained.size(); ++to)
    entries[to] = entries[static_cast<std::size_t>(retained[to])];
}

}  // namespace

KvCache::KvCache(int n_kv_heads, int head_dim, std::int64_t capacity, at::ScalarType dtype)
    : keys_(at::empty({n_kv_heads, capacity, head_dim}, at::TensorOptions().dtype(dtype))),
      values_(at::empty({n_kv_heads, capacity, head_dim}, at::TensorOptions().dtype(dtype))),
      positions_(static_cast<std::size_t>(n_kv_heads),
                 std::vector<std::int32_t>(static_cast<std::size_t>(capacity))),
      received_(static_cast<std::size_t>(n_kv_heads),
                std::vector<double>(static_cast<std::size_t>(capacity))),
      queries_(static_cast<std::size_t>(n_kv_heads),
               std::vector<std::int32_t>(static_cast<std::size_t>(capacity))) {}

std::int64_t KvCache::n_bytes() const {
  const std::size_t entries = positions_.size() * (positions_.empty() ? 0 : positions_.front().size());
  constexpr std::size_t kEntry = sizeof(std::int32_t) + sizeof(double) + sizeof(std::int32_t);
  return static_cast<std::int64_t>(keys_.nbytes() + values_.nbytes() + entries * kEntry);
}

void KvCache::append(const at::Tensor& keys, const at::Tensor& values, std::int64_t first_position) {
  const std::int64_t n_new = keys.size(1);
  if (n_rows_ + n_new > keys_.size(1))
    throw InvalidInput(fmt::format("KV cache: {} rows do not fit into the {} that are free", n_new,
                                   keys_.size(1) - n_rows_));
  keys_.narrow(1, n_rows_, n_new).copy_(keys);
  values_.narrow(1, n_rows_, n_new).copy_(values);
  const auto first = static_cast<std::size_t>(n_rows_);
  for (std::size_t head = 0; head < positions_.size(); ++head)
    for (std::size_t i = 0; i < static_cast<std::size_t>(n_new); ++i) {
      positions_[head][first + i] = static_cast<std::int32_t>(first_position + static_cast<std::int64_t>(i));
      received_[head][first + i] = 0;
      queries_[head][first + i] = 0;
    }
  n_rows_ += n_new;
}

void KvCache::compact(int kv_head, std::span<const std::int32_t> retained) {
  const auto head = static_cast<std::size_t>(kv_head);
  for (const at::Tensor& tensor : {keys_, values_}) {
    const std::size_t row_bytes =
        static_cast<std::size_t>(tensor.size(2)) * static_cast<std::size_t>(tensor.element_size());
    auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    move_rows(data + head * static_cast<std::size_t>(tensor.size(1)) * row_bytes, row_bytes, retained);
  }
  move_entries(positions_[head], retained);
  move_entries(received_[head], retained);
  move_entries(queries_[head], retained);
}

}  // namespace keyscope::capture

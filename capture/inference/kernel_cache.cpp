#include "capture/inference/kernel_cache.hpp"

#include <cstddef>
#include <cstring>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

namespace keyscope::capture {
namespace {

std::size_t bytes_of_a_row(const at::Tensor& rows) {
  return static_cast<std::size_t>(rows.size(1)) * rows.element_size();
}

// Ascending order makes every move safe.
void move_rows_up(const at::Tensor& tensor, std::span<const std::int32_t> retained) {
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const std::size_t n_bytes = bytes_of_a_row(tensor);
  for (std::size_t to = 0; to < retained.size(); ++to) {
    const auto from = static_cast<std::size_t>(retained[to]);
    if (from != to) std::memcpy(data + to * n_bytes, data + from * n_bytes, n_bytes);
  }
}

std::byte* row_at(const at::Tensor& rows, std::int64_t row) {
  return static_cast<std::byte*>(rows.mutable_data_ptr()) +
         static_cast<std::size_t>(row) * bytes_of_a_row(rows);
}

}  // namespace

KernelCache::KernelCache(std::span<const std::int64_t> capacities, std::int64_t head_dim,
                         at::ScalarType dtype)
    : KvCache(capacities) {
  const auto options = at::TensorOptions().dtype(dtype);
  for (const std::int64_t capacity : capacities)
    rows_.push_back({at::empty({capacity, head_dim}, options), at::empty({capacity, head_dim}, options)});
}

KernelCache::NewRows KernelCache::append(int head, std::int64_t n, std::int64_t first_position) {
  const std::int64_t first = add_rows(head, n, first_position);
  const Rows& to = rows_[static_cast<std::size_t>(head)];
  return {row_at(to.keys, first), row_at(to.values, first)};
}

HeadRows KernelCache::rows(int head) const {
  const Rows& from = rows_[static_cast<std::size_t>(head)];
  return {from.keys.const_data_ptr(), from.values.const_data_ptr(), positions(head)};
}

std::int64_t KernelCache::row_bytes() const {
  std::size_t n = 0;
  for (const Rows& head : rows_) n += head.keys.nbytes() + head.values.nbytes();
  return static_cast<std::int64_t>(n);
}

void KernelCache::move_rows(const RetainedRows& retained) {
  at::parallel_for(0, n_heads(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto head = static_cast<std::size_t>(begin); head < static_cast<std::size_t>(end); ++head) {
      move_rows_up(rows_[head].keys, retained[head]);
      move_rows_up(rows_[head].values, retained[head]);
    }
  });
}

void KernelCache::copy_keys_and_values(const KvCache& from) {
  const auto& others = dynamic_cast<const KernelCache&>(from).rows_;
  for (std::size_t head = 0; head < rows_.size(); ++head) {
    const std::size_t n_bytes =
        static_cast<std::size_t>(n_rows(static_cast<int>(head))) * bytes_of_a_row(rows_[head].keys);
    std::memcpy(row_at(rows_[head].keys, 0), others[head].keys.const_data_ptr(), n_bytes);
    std::memcpy(row_at(rows_[head].values, 0), others[head].values.const_data_ptr(), n_bytes);
  }
}

}  // namespace keyscope::capture

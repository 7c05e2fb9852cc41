#include "capture/inference/aten_arithmetic.hpp"

#include <algorithm>
#include <cstddef>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

namespace keyscope::capture {
namespace {

at::Tensor spread(const at::Tensor& rows, std::int64_t width) {
  return rows.unsqueeze(-1).expand({rows.size(0), rows.size(1), width});
}

}  // namespace

// Zeros: what lies past a head's rows is multiplied by a weight of zero, and has to be a number.
AtenCache::AtenCache(std::span<const std::int64_t> capacities, std::int64_t head_dim,
                     const at::TensorOptions& options)
    : KvCache(capacities) {
  const auto n_heads = static_cast<std::int64_t>(capacities.size());
  const std::int64_t largest = *std::max_element(capacities.begin(), capacities.end());
  keys_ = at::zeros({n_heads, largest, head_dim}, options);
  values_ = at::zeros({n_heads, largest, head_dim}, options);
}

void AtenCache::append(const at::Tensor& keys, const at::Tensor& values, std::int64_t first_position) {
  const std::int64_t n = keys.size(1);
  for (int head = 0; head < n_heads(); ++head) add_rows(head, n, first_position);
  const at::Tensor rows = spread(last_rows(n), keys.size(2));
  keys_.scatter_(1, rows, keys);
  values_.scatter_(1, rows, values);
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

// Heads that keep fewer rows than others get their first one again, which is no row of theirs.
void AtenCache::move_rows(const RetainedRows& retained) {
  std::size_t most = 0;
  for (const auto& rows : retained) most = std::max(most, rows.size());
  const auto n = static_cast<std::int64_t>(most);
  const at::Tensor index = at::zeros({n_heads(), n}, at::TensorOptions().dtype(at::kLong));
  for (std::size_t head = 0; head < retained.size(); ++head)
    std::copy(retained[head].begin(), retained[head].end(),
              index.mutable_data_ptr<std::int64_t>() + static_cast<std::int64_t>(head) * n);
  const at::Tensor rows = index.to(keys_.device());
  keys_.narrow(1, 0, n).copy_(gather_rows(keys_, rows));
  values_.narrow(1, 0, n).copy_(gather_rows(values_, rows));
}

void AtenCache::copy_keys_and_values(const KvCache& from) {
  const auto& other = dynamic_cast<const AtenCache&>(from);
  keys().copy_(other.keys());
  values().copy_(other.values());
}

at::Tensor gather_rows(const at::Tensor& tensor, const at::Tensor& rows) {
  return at::gather(tensor, 1, spread(rows, tensor.size(2)));
}

}  // namespace keyscope::capture

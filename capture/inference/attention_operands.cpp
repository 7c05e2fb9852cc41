#include "capture/inference/attention_operands.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <ATen/native/CPUBlas.h>

namespace keyscope::capture {
namespace {

using kernels::kPanel;
namespace blas = at::native::cpublas;

constexpr std::align_val_t kCacheLine{64};

bool has_block_products(at::ScalarType dtype, std::int64_t head_dim) {
  return dtype != at::kFloat && head_dim % 2 == 0 && blas::could_pack(dtype);
}

// C (rows, cols) = A B, or C += A B, of two-byte elements with B in pairs.
void multiply_pairs(at::ScalarType dtype, std::int64_t rows, std::int64_t inner, std::int64_t cols,
                    std::int64_t a_stride, const void* a, const void* b, float* c, bool add) {
  if (dtype == at::kBFloat16)
    return blas::brgemm(rows, cols, inner, a_stride, cols, cols, add, static_cast<const at::BFloat16*>(a),
                        static_cast<const at::BFloat16*>(b), c);
  blas::brgemm(rows, cols, inner, a_stride, cols, cols, add, static_cast<const at::Half*>(a),
               static_cast<const at::Half*>(b), c);
}

}  // namespace

void ScratchBuffer::Free::operator()(std::byte* bytes) const { ::operator delete(bytes, kCacheLine); }

void ScratchBuffer::grow(std::size_t n_bytes) {
  if (n_bytes <= size_) return;
  bytes_.reset();
  size_ = 0;
  bytes_.reset(static_cast<std::byte*>(::operator new(n_bytes, kCacheLine)));
  size_ = n_bytes;
}

AttentionOperands::AttentionOperands(const kernels::Kernels& kernels, at::ScalarType dtype,
                                     std::int64_t head_dim)
    : kernels_(kernels), dtype_(dtype), head_dim_(head_dim), paired_(has_block_products(dtype, head_dim)) {}

void AttentionOperands::pack(const HeadRows& rows, std::int64_t first) {
  const std::int64_t n_rows = rows.n_rows() - first;
  n_panels_ = (n_rows + kPanel - 1) / kPanel;
  const std::size_t panel_bytes = static_cast<std::size_t>(kPanel * head_dim_) * element_bytes();
  const auto total = static_cast<std::int64_t>(panel_bytes) * n_panels_;
  auto* keys = keys_.reserve<std::byte>(total);
  auto* values = values_.reserve<std::byte>(total);
  const auto& element = kernels::of(kernels_, dtype_);
  const std::size_t row_bytes = static_cast<std::size_t>(head_dim_) * c10::elementSize(dtype_);
  for (std::int64_t panel = 0; panel < n_panels_; ++panel) {
    const std::int64_t row = panel * kPanel, n = std::min(kPanel, n_rows - row);
    const auto offset = static_cast<std::size_t>(first + row) * row_bytes;
    const std::byte* key_rows = static_cast<const std::byte*>(rows.keys) + offset;
    const std::byte* value_rows = static_cast<const std::byte*>(rows.values) + offset;
    std::byte* key_panel = keys + static_cast<std::size_t>(panel) * panel_bytes;
    std::byte* value_panel = values + static_cast<std::size_t>(panel) * panel_bytes;
    if (paired_) {
      kernels_.pair_columns(key_rows, n, head_dim_, key_panel);
      kernels_.pair_rows(value_rows, n, head_dim_, value_panel);
      continue;
    }
    element.transpose_panel(key_rows, n, head_dim_, reinterpret_cast<float*>(key_panel));
    auto* plain = reinterpret_cast<float*>(value_panel);
    element.to_float(value_rows, plain, n * head_dim_);
    std::fill(plain + n * head_dim_, plain + kPanel * head_dim_, 0.F);
  }
}

void AttentionOperands::score(const void* queries, std::int64_t n, std::int64_t n_panels, float* scores) {
  const auto* keys = keys_.reserve<std::byte>(0);
  const std::size_t panel_bytes = static_cast<std::size_t>(kPanel * head_dim_) * element_bytes();
  const float* plain = nullptr;
  if (!paired_) {
    float* converted = queries_.reserve<float>(n * head_dim_);
    kernels::of(kernels_, dtype_).to_float(queries, converted, n * head_dim_);
    plain = converted;
  }
  for (std::int64_t panel = 0; panel < n_panels; ++panel) {
    const std::byte* key_panel = keys + static_cast<std::size_t>(panel) * panel_bytes;
    float* out = scores + panel * n * kPanel;
    if (paired_)
      multiply_pairs(dtype_, n, head_dim_, kPanel, head_dim_, queries, key_panel, out, false);
    else
      kernels_.multiply_panel(
          {plain, head_dim_, reinterpret_cast<const float*>(key_panel), out, n, head_dim_, kPanel, false});
  }
}

void AttentionOperands::mix(const float* weights, const void* paired_weights, std::int64_t n,
                            std::int64_t n_panels, float* out) {
  const auto* values = values_.reserve<std::byte>(0);
  const std::size_t panel_bytes = static_cast<std::size_t>(kPanel * head_dim_) * element_bytes();
  for (std::int64_t panel = 0; panel < n_panels; ++panel) {
    const std::byte* value_panel = values + static_cast<std::size_t>(panel) * panel_bytes;
    const std::int64_t offset = panel * n * kPanel;
    if (paired_)
      multiply_pairs(dtype_, n, kPanel, head_dim_, kPanel,
                     static_cast<const std::byte*>(paired_weights) + offset * 2, value_panel, out, panel > 0);
    else
      kernels_.multiply_panel({weights + offset, kPanel, reinterpret_cast<const float*>(value_panel), out, n,
                               kPanel, head_dim_, panel > 0});
  }
}

void AttentionOperands::release() const {
  if (paired_) blas::brgemm_release();
}

}  // namespace keyscope::capture

// Products with a model's weights on the CPU.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "capture/kernels/kernels.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

constexpr std::int64_t kThinRows = 4;
constexpr std::int64_t kColumnsPerTask = 64;

void thin_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  const std::int64_t n = x.size(0), inner = x.size(1), outer = weight.size(0);
  const auto& kernels = kernels::of(x.scalar_type());
  std::vector<float> wide(n * inner);
  kernels.to_float(x.const_data_ptr(), wide.data(), n * inner);
  std::vector<float> product(n * outer), added;
  if (bias.defined()) {
    added.resize(outer);
    kernels.to_float(bias.const_data_ptr(), added.data(), outer);
  }
  at::parallel_for(0, outer, kColumnsPerTask, [&](std::int64_t begin, std::int64_t end) {
    kernels.thin_product(
        {wide.data(), weight.const_data_ptr(), inner, product.data(), outer, n, inner, begin, end});
    if (added.empty()) return;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t j = begin; j < end; ++j) product[row * outer + j] += added[j];
  });
  kernels.from_float(product.data(), out.mutable_data_ptr(), n * outer);
}

// Some tens of rows: LibTorch packs the weights for every product, which costs more than the product. Here
// the rows are packed instead, and the weights are read as they lie, once: outᵀ = weight xᵀ.
class NarrowProduct {
 public:
  NarrowProduct(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out)
      : x_(x),
        weight_(weight),
        out_(out),
        kernels_(kernels::of(x.scalar_type())),
        n_(x.size(0)),
        inner_(x.size(1)),
        outer_(weight.size(0)),
        width_((n_ + kTile - 1) / kTile * kTile) {
    if (bias.defined()) {
      bias_.resize(outer_);
      kernels_.to_float(bias.const_data_ptr(), bias_.data(), outer_);
    }
  }

  static bool serves(const at::Tensor& x) {
    if (x.size(0) > kMostRows || x.size(1) % 2 != 0) return false;
    return x.scalar_type() == at::kFloat || at::native::cpublas::could_pack(x.scalar_type());
  }

  void run() {
    const bool paired = x_.scalar_type() != at::kFloat;
    packed_.resize(inner_ * width_ * (paired ? 1 : 2));
    if (paired)
      pack_pairs();
    else
      pack_floats();
    at::parallel_for(0, (outer_ + kColumns - 1) / kColumns, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> product(kColumns * width_);
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t first = part * kColumns, count = std::min(kColumns, outer_ - first);
        if (paired)
          multiply_pairs(first, count, product.data());
        else
          kernels::best().multiply_panel({weight_.const_data_ptr<float>() + first * inner_, inner_,
                                          reinterpret_cast<const float*>(packed_.data()), product.data(),
                                          count, inner_, width_, false});
        store(first, count, product.data());
      }
      if (paired) at::native::cpublas::brgemm_release();
    });
  }

 private:
  static constexpr std::int64_t kTile = 16;      // rows come in so many, the last filled up with zeros
  static constexpr std::int64_t kMostRows = 64;  // beyond, packing the weights pays
  static constexpr std::int64_t kColumns = 64;   // of the output, at once

  // [inner / 2][width][2] two-byte elements.
  void pack_pairs() {
    const auto* rows = static_cast<const std::byte*>(x_.const_data_ptr());
    auto* to = reinterpret_cast<std::byte*>(packed_.data());
    for (std::int64_t pair = 0; pair < inner_ / 2; ++pair)
      for (std::int64_t row = 0; row < n_; ++row)
        std::memcpy(to + (pair * width_ + row) * 4, rows + (row * inner_ + 2 * pair) * 2, 4);
  }

  // [inner][width] float32.
  void pack_floats() {
    const auto* rows = x_.const_data_ptr<float>();
    auto* to = reinterpret_cast<float*>(packed_.data());
    for (std::int64_t i = 0; i < inner_; ++i)
      for (std::int64_t row = 0; row < n_; ++row) to[i * width_ + row] = rows[row * inner_ + i];
  }

  void multiply_pairs(std::int64_t first, std::int64_t count, float* product) const {
    const auto multiply = [&]<typename T>(const T* weights) {
      at::native::cpublas::brgemm(count, width_, inner_, inner_, width_, width_, false,
                                  weights + first * inner_, reinterpret_cast<const T*>(packed_.data()),
                                  product);
    };
    if (x_.scalar_type() == at::kBFloat16)
      multiply(weight_.const_data_ptr<at::BFloat16>());
    else
      multiply(weight_.const_data_ptr<at::Half>());
  }

  // Columns [first, first + count) of the output, of a product (count, width).
  void store(std::int64_t first, std::int64_t count, const float* product) {
    auto* out = static_cast<std::byte*>(out_.mutable_data_ptr());
    const auto element = static_cast<std::int64_t>(out_.element_size());
    float row_part[kColumns];
    for (std::int64_t row = 0; row < n_; ++row) {
      for (std::int64_t i = 0; i < count; ++i)
        row_part[i] = product[i * width_ + row] + (bias_.empty() ? 0 : bias_[first + i]);
      kernels_.from_float(row_part, out + (row * outer_ + first) * element, count);
    }
  }

  const at::Tensor &x_, &weight_;
  at::Tensor& out_;
  const kernels::ElementKernels& kernels_;
  std::int64_t n_, inner_, outer_, width_;
  std::vector<float> bias_;
  std::vector<std::uint16_t> packed_;
};

// Whether LibTorch has a fast product of this type here. It has none of 16-bit numbers on processors too old
// for oneDNN's, where it takes one dot product after another.
bool multiplies_fast([[maybe_unused]] at::ScalarType type) {
#if defined(__x86_64__) && !defined(__clang__)  // clang 16 has no name for the second
  if (type == at::kBFloat16) return __builtin_cpu_supports("avx512dq") != 0;
  if (type == at::kHalf) return __builtin_cpu_supports("avx512fp16") != 0;
#endif
  return true;
}

at::Tensor to_float(const at::Tensor& rows) {
  constexpr std::int64_t kValuesPerTask = 1 << 16;
  at::Tensor wide = at::empty(rows.sizes(), rows.options().dtype(at::kFloat));
  const auto& kernels = kernels::of(rows.scalar_type());
  const auto* from = static_cast<const char*>(rows.const_data_ptr());
  auto* to = wide.mutable_data_ptr<float>();
  const auto size = static_cast<std::int64_t>(rows.element_size());
  at::parallel_for(0, rows.numel(), kValuesPerTask, [&](std::int64_t begin, std::int64_t end) {
    kernels.to_float(from + begin * size, to + begin, end - begin);
  });
  return wide;
}

// In float32, rounded once at the end, with the weights converted a few megabytes at a time.
void widened_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  constexpr std::int64_t kValuesAtOnce = 1 << 20;
  const std::int64_t n = x.size(0), inner = x.size(1), outer = weight.size(0);
  const std::int64_t outer_at_once = std::max<std::int64_t>(kColumnsPerTask, kValuesAtOnce / inner);
  const at::Tensor wide = to_float(x);
  at::Tensor product = at::empty({n, outer}, wide.options());
  for (std::int64_t first = 0; first < outer; first += outer_at_once) {
    const std::int64_t count = std::min(outer_at_once, outer - first);
    at::Tensor part = product.narrow(1, first, count);
    at::mm_out(part, wide, to_float(weight.narrow(0, first, count)).t());
  }
  if (bias.defined()) product.add_(to_float(bias));
  kernels::of(x.scalar_type()).from_float(product.const_data_ptr<float>(), out.mutable_data_ptr(), n * outer);
}

}  // namespace

void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  if (x.size(0) <= kThinRows) return thin_linear(x, weight, bias, out);
  if (NarrowProduct::serves(x) && weight.is_contiguous()) return NarrowProduct(x, weight, bias, out).run();
  if (!multiplies_fast(x.scalar_type())) return widened_linear(x, weight, bias, out);
  if (bias.defined())
    at::addmm_out(out, bias, x, weight.t());
  else
    at::mm_out(out, x, weight.t());
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  linear(x, weight, bias, out);
  return out;
}

}  // namespace keyscope::capture

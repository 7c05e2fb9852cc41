// Products with a model's weights on the CPU.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <ATen/Parallel.h>
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

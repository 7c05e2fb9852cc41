#include "capture/model/linear.hpp"

#include <algorithm>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {
namespace {

constexpr std::int64_t kThinRows = 4;
constexpr std::int64_t kColumnsPerTask = 64;

void thin_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  const std::int64_t n = x.size(0), inner = x.size(1), outer = weight.size(0);
  const auto& kernels = kernels::of(x.scalar_type());
  std::vector<float> wide(static_cast<std::size_t>(n * inner));
  kernels.to_float(x.const_data_ptr(), wide.data(), n * inner);
  std::vector<float> product(static_cast<std::size_t>(n * outer)), added;
  if (bias.defined()) {
    added.resize(static_cast<std::size_t>(outer));
    kernels.to_float(bias.const_data_ptr(), added.data(), outer);
  }
  at::parallel_for(0, outer, kColumnsPerTask, [&](std::int64_t begin, std::int64_t end) {
    kernels.thin_product(
        {wide.data(), weight.const_data_ptr(), inner, product.data(), outer, n, inner, begin, end});
    if (added.empty()) return;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t j = begin; j < end; ++j)
        product[static_cast<std::size_t>(row * outer + j)] += added[static_cast<std::size_t>(j)];
  });
  kernels.from_float(product.data(), out.mutable_data_ptr(), n * outer);
}

}  // namespace

void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  if (x.size(0) <= kThinRows) return thin_linear(x, weight, bias, out);
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

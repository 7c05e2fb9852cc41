// Products with a model's weights on the CPU.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "capture/kernels/kernels.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

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

// Whether LibTorch's products of this type are the fast ones here. Of 16-bit numbers they are where the
// processor multiplies these itself: elsewhere oneDNN converts them for every product, or takes one dot
// product after another. Of float32 ours are faster without AVX-512 (docs/bench.md).
bool multiplies_fast([[maybe_unused]] at::ScalarType type) {
#if defined(__x86_64__) && !defined(__clang__)  // clang 16 has no name for the first two
  if (type == at::kHalf) return __builtin_cpu_supports("avx512fp16") != 0;
  if (type == at::kBFloat16) return __builtin_cpu_supports("avx512bf16") != 0;
  return __builtin_cpu_supports("avx512dq") != 0;
#else
  return true;
#endif
}

constexpr std::int64_t ceiling(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// Each thread takes some columns after the other, so that one that is held up holds nobody up.
void multiply_columns(kernels::WideProduct product, void (*multiply)(const kernels::WideProduct&),
                      std::int64_t outer, std::int64_t panel_rows) {
  constexpr std::int64_t kFewestColumns = 24, kTasksPerThread = 4;
  constexpr std::int64_t kMostColumns = 96;  // whose weights as float32 fit into the second cache
  const std::int64_t n_threads = at::get_num_threads();
  const std::int64_t at_once =
      std::clamp(ceiling(outer / (n_threads * kTasksPerThread), kFewestColumns) * kFewestColumns,
                 kFewestColumns, kMostColumns);
  std::atomic<std::int64_t> next = 0;
  at::parallel_for(0, std::min(n_threads, ceiling(outer, at_once)), 1, [&](std::int64_t, std::int64_t) {
    thread_local std::vector<float> scratch;
    scratch.resize(at_once * (kernels::kProductDepth + panel_rows));
    kernels::WideProduct part = product;
    part.scratch = scratch.data();
    for (part.first = next.fetch_add(at_once); part.first < outer; part.first = next.fetch_add(at_once)) {
      part.last = std::min(part.first + at_once, outer);
      multiply(part);
    }
  });
}

}  // namespace

// Some hundred rows at a time, so that what is held as float32 does not grow with the prompt.
void wide_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  constexpr std::int64_t kRowsAtOnce = 512;
  const std::int64_t n = x.size(0), inner = x.size(1), outer = weight.size(0);
  const std::int64_t tile_rows = kernels::best().tile_rows;
  const auto& loops = kernels::of(x.scalar_type());
  const auto size = static_cast<std::int64_t>(x.element_size());
  const std::int64_t most_panels = ceiling(std::min(n, kRowsAtOnce), tile_rows);
  const auto panels = std::make_unique_for_overwrite<float[]>(most_panels * inner * tile_rows);
  for (std::int64_t first = 0; first < n; first += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, n - first), n_panels = ceiling(rows, tile_rows);
    const auto* from = static_cast<const char*>(x.const_data_ptr()) + first * inner * size;
    at::parallel_for(0, n_panels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel)
        loops.pack_rows(from + panel * tile_rows * inner * size,
                        std::min(tile_rows, rows - panel * tile_rows), inner,
                        panels.get() + panel * tile_rows * inner);
    });
    multiply_columns({.panels = panels.get(),
                      .weight = weight.const_data_ptr(),
                      .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
                      .y = static_cast<char*>(out.mutable_data_ptr()) + first * outer * size,
                      .y_stride = outer,
                      .rows = rows,
                      .inner = inner},
                     loops.wide_product, outer, n_panels * tile_rows);
  }
}

void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out) {
  if (x.size(0) <= kThinRows) return thin_linear(x, weight, bias, out);
  if (!multiplies_fast(x.scalar_type())) return wide_linear(x, weight, bias, out);
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

bool onednn_multiplies(at::ScalarType type) {
  return at::isReducedFloatingType(type) && multiplies_fast(type);
}

}  // namespace keyscope::capture

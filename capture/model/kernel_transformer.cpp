#include "capture/model/kernel_transformer.hpp"

#include <algorithm>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include "capture/kernels/kernels.hpp"
#include "capture/model/linear.hpp"

namespace keyscope::capture {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 15;

std::byte* bytes(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

// Calls loop(first, count) for ranges of n elements, on all threads.
template <typename Loop>
void parallel(std::int64_t n, std::int64_t grain, const Loop& loop) {
  at::parallel_for(0, n, grain, [&](std::int64_t begin, std::int64_t end) { loop(begin, end - begin); });
}

void add(at::Tensor& sum, const at::Tensor& other) {
  const auto& kernels = kernels::of(sum.scalar_type());
  const auto width = static_cast<std::int64_t>(sum.element_size());
  parallel(sum.numel(), kElementsPerTask, [&](std::int64_t first, std::int64_t n) {
    kernels.add(bytes(sum) + first * width, bytes(other) + first * width, n);
  });
}

}  // namespace

KernelTransformer::KernelTransformer(const ModelConfig& config, WeightStore weights)
    : Transformer(config, std::move(weights)) {}

Projections KernelTransformer::project(const LayerWeights& w, const at::Tensor& hidden) const {
  at::Tensor x = normalized_.take(hidden.size(0), hidden.size(1), hidden.options());
  normalize_into(hidden, w.attention_norm, x.size(1), x);
  const auto projected = [&](ScratchTensor& memory, const at::Tensor& weight, const at::Tensor& bias) {
    at::Tensor out = memory.take(x.size(0), weight.size(0), x.options());
    linear(x, weight, bias, out);
    return out;
  };
  Projections projections{projected(queries_, w.wq, w.bq), projected(keys_, w.wk, w.bk),
                          projected(values_, w.wv, w.bv)};
  if (config().qk_norm) {
    normalize_heads(projections.queries, w.query_norm);
    normalize_heads(projections.keys, w.key_norm);
  }
  return projections;
}

void KernelTransformer::add_attention(const LayerWeights& w, const at::Tensor& attention,
                                      at::Tensor& hidden) const {
  at::Tensor projected = projected_.take(hidden.size(0), hidden.size(1), hidden.options());
  linear(attention, w.wo, w.bo, projected);
  if (config().post_norms) normalize_into(projected, w.attention_post_norm, projected.size(1), projected);
  add(hidden, projected);
}

void KernelTransformer::add_mlp(const LayerWeights& w, at::Tensor& hidden) const {
  const std::int64_t n = hidden.size(0), width = hidden.size(1);
  at::Tensor x = normalized_.take(n, width, hidden.options());
  normalize_into(hidden, w.mlp_norm, width, x);
  at::Tensor gate = gate_.take(n, w.gate.size(0), hidden.options());
  at::Tensor up = up_.take(n, w.up.size(0), hidden.options());
  linear(x, w.gate, w.gate_bias, gate);
  linear(x, w.up, w.up_bias, up);
  const auto activation = config().activation == HiddenActivation::kSilu ? kernels::Activation::kSilu
                                                                         : kernels::Activation::kGeluTanh;
  const auto& kernels = kernels::of(hidden.scalar_type());
  const auto element = static_cast<std::int64_t>(hidden.element_size());
  parallel(gate.numel(), kElementsPerTask, [&](std::int64_t first, std::int64_t count) {
    kernels.gate(bytes(gate) + first * element, bytes(up) + first * element, count, activation);
  });
  at::Tensor out = projected_.take(n, width, hidden.options());
  linear(gate, w.down, w.down_bias, out);
  if (config().post_norms) normalize_into(out, w.mlp_post_norm, width, out);
  add(hidden, out);
}

void KernelTransformer::multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const {
  linear(x, weight, {}, out);
}

at::Tensor KernelTransformer::normalized(const at::Tensor& x, const at::Tensor& weight) const {
  at::Tensor out = at::empty_like(x);
  normalize_into(x, weight, x.size(1), out);
  return out;
}

// Each head by itself, in place.
void KernelTransformer::normalize_heads(at::Tensor& projected, const at::Tensor& weight) const {
  normalize_into(projected, weight, config().head_dim, projected);
}

void KernelTransformer::normalize_into(const at::Tensor& x, const at::Tensor& weight, std::int64_t cols,
                                       at::Tensor& out) const {
  const auto& kernels = kernels::of(x.scalar_type());
  const std::int64_t row_bytes = cols * static_cast<std::int64_t>(x.element_size());
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerTask / cols);
  parallel(x.numel() / cols, grain, [&](std::int64_t first, std::int64_t n) {
    kernels.rms_norm({bytes(x) + first * row_bytes, weight.const_data_ptr(), bytes(out) + first * row_bytes,
                      n, cols, static_cast<float>(config().rms_norm_eps), config().unit_offset_norms});
  });
}

}  // namespace keyscope::capture

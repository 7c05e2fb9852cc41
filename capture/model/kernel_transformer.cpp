#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "capture/kernels/kernels.hpp"
#include "capture/model/transformer.hpp"

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

Projections KernelTransformer::project_heads(const LayerWeights& w, const at::Tensor& hidden) const {
  const at::Tensor x = normalized_input(hidden, w.attention_norm);
  const auto projected = [&](ScratchTensor& memory, const at::Tensor& weight, const at::Tensor& bias) {
    at::Tensor out = memory.take(x.size(0), weight.size(0), x.options());
    linear(x, weight, bias, out);
    return out;
  };
  Projections projections{projected(queries_, w.wq, w.bq), projected(keys_, w.wk, w.bk),
                          projected(values_, w.wv, w.bv),
                          w.wgate.defined() ? projected(output_gate_, w.wgate, {}) : at::Tensor(), w.sinks};
  // Each head by itself, or all together, as long as the weight is.
  if (w.query_norm.defined()) {
    normalize_into(projections.queries, w.query_norm, w.query_norm.size(0), projections.queries);
    normalize_into(projections.keys, w.key_norm, w.key_norm.size(0), projections.keys);
  }
  return projections;
}

void KernelTransformer::add_attention(const LayerWeights& w, const at::Tensor& attention,
                                      at::Tensor& hidden) const {
  at::Tensor projected = projected_.take(hidden.size(0), hidden.size(1), hidden.options());
  linear(attention, w.wo, w.bo, projected);
  add_branch(projected, w.attention_post_norm, hidden);
}

at::Tensor KernelTransformer::delta_rule(const DeltaRuleInput& input, at::Tensor& memory) const {
  const std::int64_t n = input.values.size(0), n_heads = input.values.size(1), n_keys = input.keys.size(1);
  const std::int64_t key_dim = input.keys.size(2), value_dim = input.values.size(2);
  const at::Tensor out = at::empty_like(input.values);
  at::parallel_for(0, n_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const std::int64_t key_head = head / (n_heads / n_keys);
      kernels::best().delta_rule({.queries = input.queries.const_data_ptr<float>() + key_head * key_dim,
                                  .keys = input.keys.const_data_ptr<float>() + key_head * key_dim,
                                  .key_stride = n_keys * key_dim,
                                  .values = input.values.const_data_ptr<float>() + head * value_dim,
                                  .value_stride = n_heads * value_dim,
                                  .decay = input.decay.const_data_ptr<float>() + head,
                                  .update = input.update.const_data_ptr<float>() + head,
                                  .rate_stride = n_heads,
                                  .memory = memory.mutable_data_ptr<float>() + head * key_dim * value_dim,
                                  .out = out.mutable_data_ptr<float>() + head * value_dim,
                                  .n = n,
                                  .key_dim = key_dim,
                                  .value_dim = value_dim});
    }
  });
  return out;
}

Routing KernelTransformer::add_mlp(const LayerWeights& w, at::Tensor& hidden) const {
  const at::Tensor x = normalized_input(hidden, w.mlp_norm);
  at::Tensor out = projected_.take(hidden.size(0), hidden.size(1), hidden.options());
  Routing routing;
  if (w.router.defined())
    routing = mix_experts(w, x, out);
  else
    feed_forward(w.mlp, x, false, out);
  add_branch(out, w.mlp_post_norm, hidden);
  return routing;
}

// Undefined weight: as it is.
at::Tensor KernelTransformer::normalized_input(const at::Tensor& hidden, const at::Tensor& weight) const {
  if (!weight.defined()) return hidden;
  at::Tensor x = normalized_.take(hidden.size(0), hidden.size(1), hidden.options());
  normalize_into(hidden, weight, x.size(1), x);
  return x;
}

// What a branch gave, which it changes, to what went into it.
void KernelTransformer::add_branch(at::Tensor& given, const at::Tensor& post_norm, at::Tensor& hidden) const {
  if (post_norm.defined()) normalize_into(given, post_norm, given.size(1), given);
  if (config().residual_scale != 1) given.mul_(config().residual_scale);
  add(hidden, given);
}

void KernelTransformer::feed_forward(const MlpWeights& w, const at::Tensor& x, bool clamped,
                                     at::Tensor& out) const {
  const std::int64_t n = x.size(0);
  at::Tensor gate = gate_.take(n, w.gate.size(0), x.options());
  at::Tensor up = up_.take(n, w.up.size(0), x.options());
  linear(x, w.gate, w.gate_bias, gate);
  linear(x, w.up, w.up_bias, up);
  auto activation = config().activation == HiddenActivation::kSilu ? kernels::Activation::kSilu
                                                                   : kernels::Activation::kGeluTanh;
  if (clamped) activation = kernels::Activation::kClampedSwiglu;
  const auto& kernels = kernels::of(x.scalar_type());
  const auto element = static_cast<std::int64_t>(x.element_size());
  const auto limit = static_cast<float>(config().experts.clamp);
  parallel(gate.numel(), kElementsPerTask, [&](std::int64_t first, std::int64_t count) {
    kernels.gate(bytes(gate) + first * element, bytes(up) + first * element, count, activation, limit);
  });
  linear(gate, w.down, w.down_bias, out);
}

void KernelTransformer::multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const {
  linear(x, weight, {}, out);
}

at::Tensor KernelTransformer::normalized(const at::Tensor& x, const at::Tensor& weight) const {
  at::Tensor out = at::empty_like(x);
  normalize_into(x, weight, x.size(1), out);
  return out;
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

at::Tensor ScratchTensor::take(std::int64_t rows, std::int64_t cols, const at::TensorOptions& options) {
  const std::int64_t n = rows * cols;
  if (!memory_.defined() || memory_.numel() < n || memory_.scalar_type() != options.dtype().toScalarType())
    memory_ = at::empty({n}, options);
  return memory_.narrow(0, 0, n).view({rows, cols});
}

}  // namespace keyscope::capture

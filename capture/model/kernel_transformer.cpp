#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

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
  Projections projections{.queries = projected(queries_, w.wq, w.bq), .sinks = w.sinks};
  at::Tensor &keys = projections.keys, &values = projections.values;
  if (w.wk.defined()) keys = projected(keys_, w.wk, w.bk);
  if (w.wv.defined()) {
    values = projected(values_, w.wv, w.bv);
  } else if (keys.defined()) {
    values = values_.take(x.size(0), keys.size(1), x.options());
    values.copy_(keys);
  }
  if (w.wgate.defined()) projections.gate = projected(output_gate_, w.wgate, w.bgate);
  // Each head by itself, or all together, as long as the weight is.
  const auto normalize = [&](at::Tensor& heads, const at::Tensor& weight) {
    if (weight.defined()) normalize_into(heads, weight, weight.size(0), heads);
  };
  normalize(projections.queries, w.query_norm);
  normalize(keys, w.key_norm);
  normalize(values, w.value_norm);
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
  Routing routing = feed(w, hidden, x, out);
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

// Each thread takes one expert after another: their products are small, and threads that met after every one
// would mostly wait. A single expert is left to all threads.
void KernelTransformer::run_groups(const ExpertWeights& experts, const std::vector<ExpertGroup>& groups,
                                   const at::Tensor& x, at::Tensor& given) const {
  const auto n_groups = static_cast<std::int64_t>(groups.size());
  const std::int64_t n_workers = std::min<std::int64_t>(n_groups, at::get_num_threads());
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    const c10::InferenceMode inference;  // a property of each thread
    for (std::int64_t i = next++; i < n_groups; i = next++) run_group(experts, groups[i], x, given);
  };
  if (n_workers == 1) return work();
  at::parallel_for(0, n_workers, 1, [&](std::int64_t, std::int64_t) { work(); });
}

void KernelTransformer::feed_forward(const MlpWeights& w, const at::Tensor& x, bool clamped,
                                     at::Tensor& out) const {
  thread_local ScratchTensor kept_gate, kept_up;
  const std::int64_t n = x.size(0);
  at::Tensor gate = kept_gate.take(n, w.gate.size(0), x.options());
  at::Tensor up = kept_up.take(n, w.up.size(0), x.options());
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

at::Tensor ScratchTensor::take(std::int64_t rows, std::int64_t cols, const at::TensorOptions& options) {
  const std::int64_t n = rows * cols;
  if (!memory_.defined() || memory_.numel() < n || memory_.scalar_type() != options.dtype().toScalarType())
    memory_ = at::empty({n}, options);
  return memory_.narrow(0, 0, n).view({rows, cols});
}

}  // namespace keyscope::capture

// Layers that mix tokens by a state: Gated DeltaNet (Yang et al., arXiv 2412.06464) as Qwen3-Next has it.

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/zeros.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

constexpr double kUnitEpsilon = 1e-6;  // added to the squared length of queries and keys

at::Tensor of_unit_length(const at::Tensor& rows) {
  return rows * at::rsqrt(rows.square().sum(-1, true) + kUnitEpsilon);
}

// The depthwise convolution over time.
//   inputs: (n + tokens - 1, C); kernel: (C, 1, tokens); float32 (n, C)
at::Tensor convolved(const at::Tensor& inputs, const at::Tensor& kernel) {
  const at::Tensor wide = inputs.to(at::kFloat), weights = kernel.squeeze(1).to(at::kFloat);
  const std::int64_t n_taps = weights.size(1), n = inputs.size(0) - n_taps + 1;
  at::Tensor sum = wide.narrow(0, 0, n) * weights.select(1, 0);
  for (std::int64_t tap = 1; tap < n_taps; ++tap)
    sum.addcmul_(wide.narrow(0, tap, n), weights.select(1, tap));
  return sum;
}

}  // namespace

RecurrentState Transformer::fresh_state(int layer) const {
  const RecurrentConfig& about = config().recurrent;
  const at::TensorOptions there = options(layer);
  return {at::zeros({about.kernel - 1, about.n_channels()}, there),
          at::zeros({about.n_value_heads, about.key_dim, about.value_dim}, there.dtype(at::kFloat))};
}

RecurrentProjections Transformer::project_recurrent(const LayerWeights& w, const at::Tensor& hidden) const {
  const at::Tensor x = normalized(hidden, w.attention_norm);
  const RecurrentWeights& weights = w.recurrent;
  return {product(x, weights.mixed, {}), product(x, weights.gate, {}), product(x, weights.update, {}),
          product(x, weights.decay, {})};
}

at::Tensor Transformer::recur(const LayerWeights& w, const RecurrentProjections& projections,
                              RecurrentState& state) const {
  const RecurrentConfig& about = config().recurrent;
  const RecurrentWeights& weights = w.recurrent;
  const at::Tensor inputs = at::cat({state.inputs, projections.mixed});
  const std::int64_t n = projections.mixed.size(0), keys = std::int64_t{about.n_key_heads} * about.key_dim;
  // It rounds to the model's dtype before the activation and after it, as Transformers does.
  const at::Tensor mixed =
      activated(convolved(inputs, weights.kernel).to(dtype()).to(at::kFloat)).to(dtype()).to(at::kFloat);
  state.inputs = inputs.narrow(0, n, about.kernel - 1).clone();
  const auto heads = [&](std::int64_t first, std::int64_t width, int n_heads) {
    return mixed.narrow(1, first, width).unflatten(1, {n_heads, -1});
  };
  DeltaRuleInput input;
  input.queries =
      (of_unit_length(heads(0, keys, about.n_key_heads)) / std::sqrt(static_cast<double>(about.key_dim)))
          .contiguous();
  input.keys = of_unit_length(heads(keys, keys, about.n_key_heads)).contiguous();
  input.values = heads(2 * keys, mixed.size(1) - 2 * keys, about.n_value_heads).contiguous();
  input.update = projections.update.sigmoid().to(at::kFloat).contiguous();
  const at::Tensor rate = weights.decay_rate.to(at::kFloat).exp();
  const at::Tensor step = at::softplus(projections.decay.to(at::kFloat) + weights.decay_bias.to(at::kFloat));
  input.decay = (rate * step).neg().exp().contiguous();
  const at::Tensor out = delta_rule(input, state.memory).to(dtype()).to(at::kFloat);
  const at::Tensor scale = at::rsqrt(out.square().mean(-1, true) + config().rms_norm_eps);
  const at::Tensor gate = projections.gate.unflatten(1, {about.n_value_heads, -1}).to(at::kFloat);
  const at::Tensor normal = (out * scale).to(dtype()) * weights.norm;
  return (normal.to(at::kFloat) * at::silu(gate)).to(dtype()).flatten(1);
}

}  // namespace keyscope::capture

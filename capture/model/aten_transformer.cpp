#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rms_norm.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {
namespace {

at::Tensor multiplied(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

}  // namespace

AtenTransformer::AtenTransformer(const ModelConfig& config, WeightStore weights)
    : Transformer(config, std::move(weights)) {}

Projections AtenTransformer::project_heads(const LayerWeights& w, const at::Tensor& hidden) const {
  const at::Tensor x = normalized(hidden, w.attention_norm);
  Projections projections{.queries = multiplied(x, w.wq, w.bq), .sinks = w.sinks};
  at::Tensor &keys = projections.keys, &values = projections.values;
  if (w.wk.defined()) keys = multiplied(x, w.wk, w.bk);
  if (w.wk.defined()) values = w.wv.defined() ? multiplied(x, w.wv, w.bv) : keys;
  if (w.wgate.defined()) projections.gate = multiplied(x, w.wgate, w.bgate);
  if (w.query_norm.defined()) projections.queries = normalized_heads(projections.queries, w.query_norm);
  if (w.key_norm.defined()) keys = normalized_heads(keys, w.key_norm);
  if (w.value_norm.defined()) values = normalized_heads(values, w.value_norm);
  return projections;
}

void AtenTransformer::add_attention(const LayerWeights& w, const at::Tensor& attention,
                                    at::Tensor& hidden) const {
  add_branch(normalized(multiplied(attention, w.wo, w.bo), w.attention_post_norm), hidden);
}

void AtenTransformer::add_branch(const at::Tensor& branch, at::Tensor& hidden) const {
  const double scale = config().residual_scale;
  hidden.add_(scale == 1 ? branch : branch * scale);
}

HeadRotation AtenTransformer::rotation(int layer, std::int64_t first, std::int64_t n) const {
  return rotation(layer, first, n, false);
}

HeadRotation AtenTransformer::query_rotation(int layer, std::int64_t first, std::int64_t n) const {
  return rotation(layer, first, n, config().query_growth != 0);
}

HeadRotation AtenTransformer::rotation(int layer, std::int64_t first, std::int64_t n, bool queries) const {
  // Of 512 blocks of 128 tokens and 128 coordinates.
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  const Rope& of_layer = rope(layer);
  const at::Device device = options(layer).device();
  const Rotating rotating{&of_layer, config().heads(layer).head_dim, first, n, device.index(), queries};
  if (const auto known = rotations_.find(rotating); known != rotations_.end()) return known->second;
  RotaryTable table = of_layer.table(first, n);
  if (queries) table = of_layer.query_table(table, first);
  const HeadRotation made = head_rotation(table, rotating.head_dim, config().interleaved_rotation, device);
  if ((rotation_bytes_ += made.cos.nbytes() + made.sin.nbytes()) > kMostBytes) {
    rotations_.clear();
    rotation_bytes_ = made.cos.nbytes() + made.sin.nbytes();
  }
  rotations_.emplace(rotating, made);
  return made;
}

at::Tensor AtenTransformer::delta_rule(const DeltaRuleInput& input, at::Tensor& memory) const {
  const std::int64_t n = input.values.size(0), of_each = input.values.size(1) / input.keys.size(1);
  const at::Tensor queries = input.queries.repeat_interleave(of_each, 1);
  const at::Tensor keys = input.keys.repeat_interleave(of_each, 1);
  const at::Tensor out = at::empty_like(input.values);
  for (std::int64_t token = 0; token < n; ++token) {
    const at::Tensor key = keys[token].unsqueeze(2);
    memory.mul_(input.decay[token].view({-1, 1, 1}));
    const at::Tensor known = (memory * key).sum(1);
    const at::Tensor learned = (input.values[token] - known).mul_(input.update[token].unsqueeze(1));
    memory.add_(key * learned.unsqueeze(1));
    out[token].copy_((memory * queries[token].unsqueeze(2)).sum(1));
  }
  return out;
}

Routing AtenTransformer::add_mlp(const LayerWeights& w, at::Tensor& hidden) const {
  const at::Tensor x = normalized(hidden, w.mlp_norm);
  at::Tensor out = at::empty_like(x);
  Routing routing = feed(w, hidden, x, out);
  add_branch(normalized(out, w.mlp_post_norm), hidden);
  return routing;
}

void AtenTransformer::run_groups(const ExpertWeights& experts, const std::vector<ExpertGroup>& groups,
                                 const at::Tensor& x, at::Tensor& given) const {
  for (const ExpertGroup& group : groups) run_group(experts, group, x, given);
}

void AtenTransformer::feed_forward(const MlpWeights& w, const at::Tensor& x, bool clamped,
                                   at::Tensor& out) const {
  at::Tensor gate = multiplied(x, w.gate, w.gate_bias).to(at::kFloat);
  at::Tensor up = multiplied(x, w.up, w.up_bias);
  at::Tensor active;
  if (clamped) {
    const double limit = config().experts.clamp;
    gate = gate.clamp_max(limit);
    active = (up.to(at::kFloat).clamp(-limit, limit) + 1) * gate * (1.702 * gate).sigmoid_();
  } else {
    active = activated(gate).mul_(up);
  }
  multiply(active.to(dtype()), w.down, out);
  if (w.down_bias.defined()) out.add_(w.down_bias);
}

void AtenTransformer::multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const {
  at::mm_out(out, x, weight.t());
}

at::Tensor AtenTransformer::normalized(const at::Tensor& x, const at::Tensor& weight) const {
  if (!weight.defined()) return x;
  const auto scaled = [&](const at::Tensor& rows) {
    return at::rms_norm(rows, {rows.size(-1)}, std::nullopt, config().rms_norm_eps);
  };
  if (config().unit_offset_norms) return scaled(x.to(at::kFloat)).mul(weight.to(at::kFloat) + 1).to(dtype());
  return scaled(x) * weight;
}

// Each head by itself, or all together, as long as the weight is.
at::Tensor AtenTransformer::normalized_heads(const at::Tensor& projected, const at::Tensor& weight) const {
  return normalized(projected.unflatten(-1, {-1, weight.size(0)}), weight).flatten(-2);
}

}  // namespace keyscope::capture

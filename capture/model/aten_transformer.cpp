#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/silu.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {
namespace {

at::Tensor multiplied(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

}  // namespace

AtenTransformer::AtenTransformer(const ModelConfig& config, WeightStore weights)
    : Transformer(config, std::move(weights)) {}

Projections AtenTransformer::project(const LayerWeights& w, const at::Tensor& hidden) const {
  const at::Tensor x = normalized(hidden, w.attention_norm);
  Projections projections{multiplied(x, w.wq, w.bq), multiplied(x, w.wk, w.bk), multiplied(x, w.wv, w.bv)};
  if (config().qk_norm) {
    projections.queries = normalized_heads(projections.queries, w.query_norm);
    projections.keys = normalized_heads(projections.keys, w.key_norm);
  }
  return projections;
}

void AtenTransformer::add_attention(const LayerWeights& w, const at::Tensor& attention,
                                    at::Tensor& hidden) const {
  at::Tensor projected = multiplied(attention, w.wo, w.bo);
  if (config().post_norms) projected = normalized(projected, w.attention_post_norm);
  hidden.add_(projected);
}

void AtenTransformer::add_mlp(const LayerWeights& w, at::Tensor& hidden) const {
  const at::Tensor x = normalized(hidden, w.mlp_norm);
  const at::Tensor gate = multiplied(x, w.gate, w.gate_bias).to(at::kFloat);
  const at::Tensor up = multiplied(x, w.up, w.up_bias);
  at::Tensor active =
      config().activation == HiddenActivation::kSilu ? at::silu(gate) : at::gelu(gate, "tanh");
  at::Tensor out = multiplied(active.mul_(up).to(dtype()), w.down, w.down_bias);
  if (config().post_norms) out = normalized(out, w.mlp_post_norm);
  hidden.add_(out);
}

void AtenTransformer::multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const {
  at::mm_out(out, x, weight.t());
}

at::Tensor AtenTransformer::normalized(const at::Tensor& x, const at::Tensor& weight) const {
  at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = wide.square().mean(-1, true).add_(config().rms_norm_eps).rsqrt_();
  wide = wide * scale;
  if (config().unit_offset_norms) return wide.mul_(weight.to(at::kFloat) + 1).to(dtype());
  return wide.to(dtype()) * weight;
}

// Each head by itself.
at::Tensor AtenTransformer::normalized_heads(const at::Tensor& projected, const at::Tensor& weight) const {
  return normalized(projected.unflatten(-1, {-1, weight.size(0)}), weight).flatten(-2);
}

}  // namespace keyscope::capture

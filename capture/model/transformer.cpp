#include "capture/model/transformer.hpp"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>

namespace keyscope::capture {

Transformer::Transformer(const ModelConfig& config, Weights weights)
    : config_(config), weights_(std::move(weights)), rope_(config) {}

at::Tensor Transformer::embed(std::span<const std::int32_t> ids) const {
  const at::Tensor index =
      at::from_blob(const_cast<std::int32_t*>(ids.data()), {static_cast<std::int64_t>(ids.size())},
                    at::TensorOptions().dtype(at::kInt));
  return at::embedding(weights_.embedding, index);
}

RotaryTable Transformer::rotary(std::int64_t first, std::int64_t n) const {
  return rope_.table(first, n, dtype());
}

Projections Transformer::project(int layer, const at::Tensor& hidden, const RotaryTable& rotary) const {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  const at::Tensor x = normalize(hidden, w.attention_norm);
  const std::int64_t n = hidden.size(0);
  const auto heads = [&](const at::Tensor& projected, int n_heads) {
    return projected.view({n, n_heads, config_.head_dim}).transpose(0, 1);
  };
  at::Tensor queries = heads(at::linear(x, w.wq, w.bq), config_.n_heads);
  at::Tensor keys = heads(at::linear(x, w.wk, w.bk), config_.n_kv_heads);
  if (config_.qk_norm) {
    queries = normalize(queries, w.query_norm);
    keys = normalize(keys, w.key_norm);
  }
  return {rotate(queries, rotary), rotate(keys, rotary),
          heads(at::linear(x, w.wv, w.bv), config_.n_kv_heads)};
}

at::Tensor Transformer::finish_layer(int layer, const at::Tensor& hidden, const at::Tensor& attention) const {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
  const at::Tensor joined = attention.transpose(0, 1).reshape({hidden.size(0), -1});
  const at::Tensor after_attention = hidden + at::linear(joined, w.wo, w.bo);
  const at::Tensor x = normalize(after_attention, w.mlp_norm);
  const at::Tensor gated = at::silu(at::linear(x, w.gate, w.gate_bias)) * at::linear(x, w.up, w.up_bias);
  return after_attention + at::linear(gated, w.down, w.down_bias);
}

at::Tensor Transformer::logits(const at::Tensor& hidden) const {
  return at::linear(normalize(hidden, weights_.final_norm), weights_.head).to(at::kFloat);
}

// RMSNorm in float32, rounded to the model's dtype before the weight multiplies it, as Transformers does.
at::Tensor Transformer::normalize(const at::Tensor& x, const at::Tensor& weight) const {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor variance = wide.square().mean(-1, true);
  return weight * (wide * at::rsqrt(variance + config_.rms_norm_eps)).to(x.scalar_type());
}

}  // namespace keyscope::capture

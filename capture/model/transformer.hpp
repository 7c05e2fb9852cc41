#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"
#include "capture/model/rope.hpp"
#include "capture/model/weights.hpp"

namespace keyscope::capture {

// What attention works on: after RoPE.
struct Projections {
  at::Tensor queries;  // (n_heads, n, head_dim)
  at::Tensor keys;     // (n_kv_heads, n, head_dim)
  at::Tensor values;   // (n_kv_heads, n, head_dim)
};

// The Llama architecture and its relatives (see Family) without attention: RMSNorm, projections, RoPE,
// SwiGLU, head. Attention and the
// cache lie with the caller, who may therefore go block by block or layer by layer.
// All tensors are in the model's dtype; n is the number of tokens at hand.
class Transformer {
 public:
  Transformer(const ModelConfig& config, Weights weights);

  const ModelConfig& config() const { return config_; }
  at::ScalarType dtype() const { return weights_.embedding.scalar_type(); }

  // (n, hidden_size) for n ids.
  at::Tensor embed(std::span<const std::int32_t> ids) const;

  // Rotary cosines and sines for positions first … first + n - 1: the same for every layer of a block.
  RotaryTable rotary(std::int64_t first, std::int64_t n) const;

  Projections project(int layer, const at::Tensor& hidden, const RotaryTable& rotary) const;

  // The layer's output: attention's (n_heads, n, head_dim) projected back and added, then the MLP.
  at::Tensor finish_layer(int layer, const at::Tensor& hidden, const at::Tensor& attention) const;

  // float32 logits (n, vocab) of the hidden states (n, hidden_size) that the last layer gave.
  at::Tensor logits(const at::Tensor& hidden) const;

 private:
  at::Tensor normalize(const at::Tensor& x, const at::Tensor& weight) const;

  ModelConfig config_;
  Weights weights_;
  Rope rope_;
};

}  // namespace keyscope::capture

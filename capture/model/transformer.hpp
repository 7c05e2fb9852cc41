#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"
#include "capture/model/rope.hpp"
#include "capture/model/scratch_tensor.hpp"
#include "capture/model/weights.hpp"

namespace keyscope::capture {

// What attention works on, before RoPE.
struct Projections {
  at::Tensor queries;  // (n, n_heads · head_dim)
  at::Tensor keys;     // (n, n_kv_heads · head_dim)
  at::Tensor values;   // (n, n_kv_heads · head_dim)
};

// The Llama architecture and its relatives (see Family) without attention: norms, projections, MLP, head.
// Attention and the cache lie with the caller, who may therefore go block by block or layer by layer.
// All tensors are in the model's dtype; n is the number of tokens at hand. One thread at a time: what lies
// between the products is kept from call to call, as pages that are given back have to be faulted in again.
class Transformer {
 public:
  Transformer(const ModelConfig& config, WeightStore weights);

  const ModelConfig& config() const { return config_; }
  at::ScalarType dtype() const { return weights_.embedding().scalar_type(); }
  const WeightStore& weights() const { return weights_; }

  // (n, hidden_size) for n ids.
  at::Tensor embed(std::span<const std::int32_t> ids) const;

  // The rotary frequencies of a layer.
  const Rope& rope(int layer) const { return config_.rotates_locally(layer) ? local_rope_ : rope_; }

  // Valid until the next call.
  Projections project(const LayerWeights& weights, const at::Tensor& hidden) const;

  // Makes the layer's output of its input, in place: attention's (n, n_heads · head_dim) projected back and
  // added, then the MLP.
  void finish_layer(const LayerWeights& weights, const at::Tensor& attention, at::Tensor& hidden) const;

  // float32 logits (n, vocab) of the hidden states (n, hidden_size) that the last layer gave.
  at::Tensor logits(const at::Tensor& hidden) const;

 private:
  void normalize_heads(at::Tensor& projected, const at::Tensor& weight) const;
  void normalize_into(const at::Tensor& x, const at::Tensor& weight, std::int64_t cols,
                      at::Tensor& out) const;
  void add_mlp(const LayerWeights& weights, at::Tensor& hidden) const;

  ModelConfig config_;
  WeightStore weights_;
  Rope rope_, local_rope_;
  mutable ScratchTensor normalized_, queries_, keys_, values_, projected_, gate_, up_;
};

}  // namespace keyscope::capture

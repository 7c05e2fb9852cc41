#pragma once

#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// LibTorch's operations alone, on the device where the weights lie. It rounds where KernelTransformer does:
// what lies between two products is computed in float32 and rounded once, but for a norm's weight.
class AtenTransformer : public Transformer {
 public:
  AtenTransformer(const ModelConfig& config, WeightStore weights);

  Arithmetic arithmetic() const override { return Arithmetic::kAten; }
  Projections project(const LayerWeights& weights, const at::Tensor& hidden) const override;
  void multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const override;

 protected:
  at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight) const override;
  void add_attention(const LayerWeights& weights, const at::Tensor& attention,
                     at::Tensor& hidden) const override;
  void add_mlp(const LayerWeights& weights, at::Tensor& hidden) const override;

 private:
  at::Tensor normalized_heads(const at::Tensor& projected, const at::Tensor& weight) const;
};

}  // namespace keyscope::capture

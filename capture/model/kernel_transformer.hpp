#pragma once

#include <cstdint>

#include "capture/model/scratch_tensor.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// Our own loops between LibTorch's products, on the CPU. What lies between the products is kept from call to
// call, as pages that are given back have to be faulted in again.
class KernelTransformer : public Transformer {
 public:
  KernelTransformer(const ModelConfig& config, WeightStore weights);

  Arithmetic arithmetic() const override { return Arithmetic::kKernels; }
  Projections project(const LayerWeights& weights, const at::Tensor& hidden) const override;
  void multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const override;

 protected:
  at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight) const override;
  void add_attention(const LayerWeights& weights, const at::Tensor& attention,
                     at::Tensor& hidden) const override;
  void add_mlp(const LayerWeights& weights, at::Tensor& hidden) const override;

 private:
  void normalize_heads(at::Tensor& projected, const at::Tensor& weight) const;
  void normalize_into(const at::Tensor& x, const at::Tensor& weight, std::int64_t cols,
                      at::Tensor& out) const;

  mutable ScratchTensor normalized_, queries_, keys_, values_, projected_, gate_, up_;
};

}  // namespace keyscope::capture

#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"
#include "capture/model/safetensors.hpp"

namespace keyscope::capture {

// One decoder layer's weights; D hidden, F intermediate, E head_dim. Biases are undefined where there are
// none.
struct LayerWeights {
  at::Tensor attention_norm;  // (D)
  at::Tensor wq, wk, wv, wo;  // (n_heads·E, D), (n_kv_heads·E, D), the same, (D, n_heads·E)
  at::Tensor bq, bk, bv, bo;
  at::Tensor query_norm, key_norm;  // (E); undefined where heads are not normalised
  at::Tensor mlp_norm;              // (D)
  at::Tensor gate, up, down;        // (F, D), (F, D), (D, F)
  at::Tensor gate_bias, up_bias, down_bias;
};

struct Weights {
  at::Tensor embedding;  // (vocab, D)
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;          // (D)
  at::Tensor head;                // (vocab, D); the embedding itself where the two are tied
  std::int64_t copied_bytes = 0;  // of tensors that could not be used where they lie
};

// Finds every tensor of the Llama architecture, checks all shapes and dtypes before anything is allocated,
// and hands them out as `dtype`: in place where the stored dtype is that one and the data is aligned, copied
// elsewhere. A tied pair may be stored under either name. The checkpoint must outlive the weights.
//   throws FileError naming file, tensor, what was found and what was expected
Weights bind_weights(const Checkpoint& checkpoint, const ModelConfig& config, at::ScalarType dtype);

}  // namespace keyscope::capture

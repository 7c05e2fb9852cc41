#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/model/config.hpp"
#include "capture/model/memory.hpp"
#include "capture/model/stored_weights.hpp"

namespace keyscope::capture {

// One decoder layer's weights; D hidden, F intermediate, E head_dim. What a family does not have is
// undefined.
struct LayerWeights {
  at::Tensor attention_norm;  // (D)
  at::Tensor wq, wk, wv, wo;  // (n_heads·E, D), (n_kv_heads·E, D), the same, (D, n_heads·E)
  at::Tensor bq, bk, bv, bo;
  at::Tensor query_norm, key_norm;  // (E)
  at::Tensor attention_post_norm;   // (D), of attention's output
  at::Tensor mlp_norm;              // (D)
  at::Tensor gate, up, down;        // (F, D), (F, D), (D, F)
  at::Tensor gate_bias, up_bias, down_bias;
  at::Tensor mlp_post_norm;  // (D), of the MLP's output
};

// A checkpoint's tensors as a transformer needs them: on the CPU used where they lie in the mapped file if
// dtype and alignment permit, copied elsewhere; on another device copied there, and the file's pages given
// back. What is stored must outlive the store.
class WeightStore {
 public:
  // Finds every tensor of the architecture and checks all shapes and dtypes before anything is allocated. A
  // tied pair may be stored under either name. Names may begin with "model.", with nothing, as those of a
  // model that was saved without its head, or with anything else that all share.
  //   throws FileError naming file, tensor, what was found and what was expected
  WeightStore(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype,
              Residency residency, at::Device device = at::kCPU);

  const at::Tensor& embedding() const { return embedding_; }    // (vocab, D)
  const at::Tensor& final_norm() const { return final_norm_; }  // (D)
  // (vocab, D); the embedding itself where the two are tied; undefined where the checkpoint has no head.
  const at::Tensor& head() const { return head_; }

  // Tensors of the checkpoint that the decoder has no use for, ascending by name: other heads, adapters,
  // buffers.
  const std::vector<std::string>& unused() const { return unused_; }

  // A layer's weights, for as long as the result is held.
  std::shared_ptr<const LayerWeights> layer(int index) const;

  // Where weights are streamed: asks for a layer to be read soon; gives a layer's memory back.
  void prefetch(int index) const;
  void release(int index) const;

  Residency residency() const { return residency_; }

 private:
  std::shared_ptr<const LayerWeights> bind_layer(int index) const;
  at::Tensor bind_tensor(const std::string& name) const;
  void advise(int index, int advice) const;

  const StoredWeights* stored_;
  ModelConfig config_;
  at::ScalarType dtype_;
  Residency residency_;
  at::Device device_;
  std::string decoder_;  // what stands before the names of its tensors
  std::vector<std::string> unused_;
  at::Tensor embedding_, final_norm_, head_;
  std::vector<std::shared_ptr<const LayerWeights>> layers_;  // empty where they are streamed
};

// What a model of this configuration needs of a checkpoint takes in memory as `dtype`.
WeightBytes weight_bytes(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype);

}  // namespace keyscope::capture

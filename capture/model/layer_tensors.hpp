#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/model/family.hpp"
#include "capture/model/stored_weights.hpp"
#include "capture/model/weights.hpp"

namespace keyscope::capture {

// What stands before a layer's number in the names of its tensors, without the decoder's prefix.
inline constexpr std::string_view kLayers = "layers.";

// How a checkpoint calls what the decoder needs: "model.layers.0.…" where it was saved with its head,
// "layers.0.…" without, something longer as a part of a larger model.
struct TensorNames {
  std::string decoder;  // what stands before all but the head
  std::string embedding, head;
};

TensorNames tensor_names(const StoredWeights& stored);

// A tensor that the model needs: where it goes, what it is called, what shape it must have.
struct Wanted {
  at::Tensor* target;  // null where several places share it
  std::string name;
  Shape shape;
  bool wide = false;       // in float32, whatever the model's dtype
  bool as_stored = false;  // in the dtype that it is stored in
};

// A tensor stored by itself, or one of several that are stored as one matrix, by rows.
struct Place {
  at::Tensor* target;
  std::int64_t rows;
};

// Splits a stored matrix among its places when it is bound. Its rows come in groups, each with its share of
// every place; a target that has several places gets them one after another.
struct Fused {
  std::string name;
  std::int64_t n_groups;
  std::vector<Place> places;
};

// What a layer of this model has, and where it goes. The layer, the configuration and what is stored must
// outlive it.
class LayerTensors {
 public:
  LayerTensors(LayerWeights& layer, const ModelConfig& config, const StoredWeights& stored,
               const std::string& decoder, int index);

  const std::vector<Wanted>& tensors() const { return tensors_; }
  const std::vector<Fused>& fused() const { return fused_; }
  // Modules that a checkpoint may have of the layer and that nothing is computed with: keys and values of one
  // that borrows them.
  const std::vector<std::string>& unread() const { return unread_; }
  // Those of experts, which are not read with the others.
  const std::vector<Wanted>& expert_tensors() const { return expert_tensors_; }

  // Whether all experts are stored in one tensor, as newer checkpoints have them, and those of some families
  // unless they are of a GGUF file.
  bool all_in_one() const;
  const ExpertsRule& experts_rule() const { return family_.experts; }

 private:
  // Whether the family's experts are none here, but for the shared one.
  bool only_shared() const { return family_.experts.may_be_none && config_.experts.n == 0; }
  void add_attention(LayerWeights& layer);
  void add_latent(LayerWeights& layer);
  void add_recurrent(LayerWeights& layer);
  void add_feed_forward(LayerWeights& layer);
  void add_beside_dense(LayerWeights& layer);
  void add_norm(at::Tensor& target, std::string_view name);
  void add_mlp(MlpWeights& mlp, const MlpNames& names, std::int64_t f);
  void add_experts(LayerWeights& layer);
  std::string of_all(std::string_view name) const;
  std::string part_of(int expert, std::string_view part, const char* kind = "weight") const;
  void want_expert(std::string_view name, Shape shape);
  void add(at::Tensor& target, std::string_view name, Shape shape);
  void fuse(std::string_view name, std::int64_t columns, std::vector<Place> places);
  // The rows of `n` groups, each of which has its share of every place.
  //   columns: 0: a vector
  void interleave(std::string_view name, std::int64_t columns, std::int64_t n, std::vector<Place> places);

  const ModelConfig& config_;
  const Family& family_;
  const StoredWeights& stored_;
  std::string prefix_;
  int index_;
  std::int64_t d_;
  std::vector<Wanted> tensors_, expert_tensors_;
  std::vector<Fused> fused_;
  std::vector<std::string> unread_;
};

}  // namespace keyscope::capture

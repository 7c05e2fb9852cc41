#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/model/compute_device.hpp"
#include "capture/model/config.hpp"
#include "capture/model/device_work.hpp"
#include "capture/model/memory.hpp"
#include "capture/model/stored_weights.hpp"

namespace keyscope::capture {

// A feed-forward's weights; D hidden, F intermediate. Without biases, these are undefined.
struct MlpWeights {
  at::Tensor gate, up, down;  // (F, D), (F, D), (D, F)
  at::Tensor gate_bias, up_bias, down_bias;
};

// The experts of a layer, each of which is read when it is first asked for: what no token goes to is not.
// Several threads may ask at a time, none for the same expert as another.
class ExpertWeights {
 public:
  using Read = std::function<MlpWeights(int expert)>;
  using Prefetch = std::function<void(int expert)>;
  ExpertWeights() = default;
  ExpertWeights(int n, Read read, Prefetch prefetch);

  int n() const { return static_cast<int>(read_.size()); }
  const MlpWeights& at(int expert) const;
  // Asks for an expert to be read soon.
  void prefetch(int expert) const;
  // Reads all of them, and from then on depends on nothing.
  void read_all();

 private:
  Read read_one_;
  Prefetch prefetch_;
  mutable std::vector<std::optional<MlpWeights>> read_;
};

// A Gated DeltaNet's weights; C channels of its convolution, H value heads, V their dimension.
struct RecurrentWeights {
  at::Tensor mixed, gate;             // (C, D), (H·V, D)
  at::Tensor update, decay;           // (H, D) twice: how much of a token is written, how much is forgotten
  at::Tensor kernel;                  // (C, 1, tokens)
  at::Tensor decay_rate, decay_bias;  // (H) twice: A_log, dt_bias
  at::Tensor norm;                    // (V)
};

// Latent attention's weights; H heads, of P plain, R rotated and V value coordinates, K and Q the ranks of
// the latents of keys and queries. See LatentConfig.
struct LatentWeights {
  at::Tensor query_down, query_down_bias, query_norm;  // (Q, D), (Q), (Q); undefined: queries have no latent
  at::Tensor query_up;                                 // (H·(P + R), Q), or (H·(P + R), D)
  at::Tensor key_down, key_down_bias, key_norm;        // (K + R, D), (K + R), (K)
  at::Tensor key_up;  // (H·(P + V), K): of each head its key's, then its value's
};

// Of an embedding besides, of which every layer is given its part; P its size, L layers. Undefined: none.
struct LayerInputWeights {
  at::Tensor table;       // (vocab, L·P), in the dtype that it is stored in, as it may be the largest of all
  at::Tensor projection;  // (L·P, D), of the token's embedding
  at::Tensor norm;        // (P), of what was projected
};

// One decoder layer's weights; E head_dim. What a family does not have is undefined.
struct LayerWeights {
  at::Tensor attention_norm;  // (D)
  // (n_heads·E, D), (n_kv_heads·E, D), the same, (D, n_heads·E). Without wk keys and values are another
  // layer's; without wv values are what wk gives.
  at::Tensor wq, wk, wv, wo;
  at::Tensor bq, bk, bv, bo;
  at::Tensor wgate, bgate;  // (n_heads·E, D), and its bias: its sigmoid multiplies attention's output
  at::Tensor query_norm, key_norm;  // (E), or of a whole projection (n_heads·E), (n_kv_heads·E)
  at::Tensor value_norm;            // (E) ones
  at::Tensor sinks;                 // (n_heads) float32, on the host
  LatentWeights latent;             // instead of wq, wk, wv; wo (D, H·V) is the output's
  RecurrentWeights recurrent;       // of a layer that does not attend; wo (D, H·V) is its output's
  at::Tensor attention_post_norm;   // (D), of attention's output
  at::Tensor mlp_norm;              // (D)
  MlpWeights mlp;                   // of a layer without experts, or beside them
  at::Tensor router, router_bias;   // (n_experts, D), (n_experts); float32 where the router is wide
  ExpertWeights experts;
  MlpWeights shared;       // what every token goes through beside the experts
  at::Tensor shared_gate;  // (1, D)
  // (D) of feed-forwards beside each other: of what the router sees, of what experts do, of both outputs.
  at::Tensor router_norm, experts_norm, experts_post_norm, dense_post_norm;
  at::Tensor expert_scale;   // (n_experts) float32, on the host: what an expert's weight is multiplied by
  at::Tensor mlp_post_norm;  // (D), of the feed-forward's output
  // What becomes of the layer's own input: (P, D), (D, P), (D).
  at::Tensor input_gate, input_projection, input_post_norm;
  at::Tensor layer_scale;  // (1), by which the layer's output is multiplied
};

// A checkpoint's tensors as a transformer needs them: on the CPU used where they lie in the mapped file if
// dtype and alignment permit, copied elsewhere; on another device copied there, and the file's pages given
// back. What is stored must outlive the store. Where weights are streamed to another device, the next layer
// is read and copied while the one before computes.
class WeightStore {
 public:
  // Finds every tensor of the architecture and checks all shapes and dtypes before anything is allocated. A
  // tied pair may be stored under either name. Names may begin with "model.", with nothing, as those of a
  // model that was saved without its head, or with anything else that all share.
  //   throws FileError naming file, tensor, what was found and what was expected
  //   read_ahead: whether the next layer is read meanwhile, if not as the device suggests
  WeightStore(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype,
              Residency residency, Placement placement = {}, std::optional<bool> read_ahead = {});

  const at::Tensor& embedding() const { return embedding_; }    // (vocab, D)
  const at::Tensor& final_norm() const { return final_norm_; }  // (D)
  const LayerInputWeights& layer_input() const { return layer_input_; }
  // (vocab, D); the embedding itself where the two are tied; undefined where the checkpoint has no head.
  const at::Tensor& head() const { return head_; }

  // Tensors of the checkpoint that the decoder has no use for, ascending by name: other heads, adapters,
  // buffers.
  const std::vector<std::string>& unused() const { return unused_; }

  // A layer's weights, for as long as the result is held; streamed ones to be let go before the layer after
  // the next is asked for.
  std::shared_ptr<const LayerWeights> layer(int index) const;

  // Where weights are streamed: asks for a layer to be read soon; gives a layer's memory back.
  void prefetch(int index) const;
  void release(int index) const;

  Residency residency() const { return residency_; }
  const Placement& placement() const { return placement_; }

 private:
  // A layer that is read by another thread.
  struct ComingLayer {
    std::shared_ptr<const LayerWeights> weights;
    DeviceMoment arrival;
  };
  // The one that is asked for next, and the last that was given away: its memory is not to come back to the
  // device before all that was asked of it has been done, which is when the next one has been asked for.
  struct ReadAhead {
    std::mutex mutex;
    // One a device, for good: memory goes back to the stream that it was taken by.
    std::vector<std::pair<at::Device, SideStream>> streams;
    int index = -1;
    std::future<ComingLayer> coming;
    std::shared_ptr<const LayerWeights> given;
  };

  std::shared_ptr<const LayerWeights> bind_layer(int index) const;
  at::Tensor bind_tensor(const std::string& name, at::ScalarType dtype, at::Device device) const;
  void begin_reading(int index) const;
  std::shared_ptr<const LayerWeights> coming_layer(int index) const;  // null where it is not coming
  void advise(int index, int advice) const;

  const StoredWeights* stored_;
  ModelConfig config_;
  at::ScalarType dtype_;
  Residency residency_;
  Placement placement_;
  std::string decoder_;  // what stands before the names of its tensors
  std::vector<std::string> unused_;
  at::Tensor embedding_, final_norm_, head_;
  LayerInputWeights layer_input_;
  std::vector<std::shared_ptr<const LayerWeights>> layers_;  // empty where they are streamed
  std::unique_ptr<ReadAhead> read_ahead_;                    // null where nothing is read ahead
};

// What a model of this configuration needs of a checkpoint takes in memory as `dtype`.
WeightBytes weight_bytes(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype);

}  // namespace keyscope::capture

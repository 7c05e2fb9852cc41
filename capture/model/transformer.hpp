#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "analysis/policies/unrotated.hpp"
#include "capture/model/config.hpp"
#include "capture/model/delta_net.hpp"
#include "capture/model/rope.hpp"
#include "capture/model/weights.hpp"

namespace keyscope::capture {

// What attention works on, before RoPE.
struct Projections {
  at::Tensor queries;   // (n, n_heads · head_dim)
  at::Tensor keys{};    // (n, n_kv_heads · head_dim); undefined where the layer borrows another's
  at::Tensor values{};  // (n, n_kv_heads · head_dim), likewise
  at::Tensor gate{};  // (n, n_heads · head_dim): its sigmoid multiplies attention's output; undefined: none
  // (n_heads) float32, on the host: a score that every query has besides; undefined: none.
  at::Tensor sinks{};
};

// To which experts a router sends n tokens, k each, the likeliest first.
struct Routing {
  at::Tensor experts;  // (n, k) int64, on the host
  at::Tensor weights;  // (n, k) float32, on the host: what their outputs are multiplied by
  at::Tensor entropy;  // (n) float32, on the host: of the shares of all experts, in nats
};

// The tokens that go to one expert, by their places among all choices: token · per_token + which of its
// choices.
struct ExpertGroup {
  int expert = 0;
  std::vector<std::int64_t> places;
};

// The Llama architecture and its relatives (see Family) without attention: norms, projections, MLP, head.
// Attention and the cache lie with the caller, who may therefore go block by block or layer by layer.
// All tensors are in the model's dtype, on the layer's device; n is the number of tokens at hand. One thread
// at a time: an arithmetic may keep what lies between the products from call to call.
class Transformer {
 public:
  // The arithmetic must be one that the weights' device has.
  static std::unique_ptr<Transformer> make(Arithmetic arithmetic, const ModelConfig& config,
                                           WeightStore weights);

  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;
  virtual ~Transformer() = default;

  const ModelConfig& config() const { return config_; }
  at::ScalarType dtype() const { return weights_.embedding().scalar_type(); }
  at::TensorOptions options() const { return weights_.embedding().options(); }  // dtype and first device
  at::TensorOptions options(int layer) const { return options().device(weights_.placement().layer(layer)); }
  const WeightStore& weights() const { return weights_; }
  virtual Arithmetic arithmetic() const = 0;

  // (n, hidden_size) for n ids.
  at::Tensor embed(std::span<const std::int32_t> ids) const;

  // What came out of the layer before, where this one computes.
  at::Tensor at_layer(int layer, const at::Tensor& hidden) const {
    return hidden.to(weights_.placement().layer(layer));
  }

  // The rotary frequencies of a layer.
  const Rope& rope(int layer) const { return config_.rotates_locally(layer) ? local_rope_ : rope_; }

  // How a layer's queries and keys turn, up to the original context.
  analysis::Rotation rotation(int layer) const;

  // Valid until the next call.
  Projections project(const LayerWeights& weights, const at::Tensor& hidden) const;

  // Makes the layer's output of its input, in place: attention's (n, n_heads · head_dim), or a recurrent
  // mixer's, projected back and added, then the feed-forward.
  //   layer_input: as layer_input() gives it
  //   returns how its experts were chosen; undefined tensors where it has none
  Routing finish_layer(const LayerWeights& weights, const at::Tensor& mixed, const at::Tensor& layer_input,
                       at::Tensor& hidden) const;

  // What a layer is given of these tokens besides: (n, layer_input.size), undefined where the model has no
  // such input.
  at::Tensor layer_input(int layer, std::span<const std::int32_t> ids) const;

  // What the layer's output projection W_O makes of single values of a KV head (n, head_dim), in the model's
  // dtype, where the layer lies: (n) ‖W_O v‖₁, mean over the query heads that read them. W_O of a query head
  // are the columns that its output meets; without bias, gate and what norms or scales the projection's
  // result (CriticalKV, arXiv 2502.03805). Under latent attention v is what each head makes of the latent.
  //   accuracy: 1e-5 relative
  std::vector<double> value_norms(const LayerWeights& weights, int layer, int kv_head,
                                  const at::Tensor& values) const;

  // A layer that does not attend: what it mixes of n tokens; and the mixed (n, value heads · value_dim) of
  // some of them, which follow those that the state has seen.
  RecurrentState fresh_state(int layer) const;
  RecurrentProjections project_recurrent(const LayerWeights& weights, const at::Tensor& hidden) const;
  at::Tensor recur(const LayerWeights& weights, const RecurrentProjections& projections,
                   RecurrentState& state) const;

  // float32 logits (n, vocab), on the host, of the hidden states (n, hidden_size) that the last layer gave.
  at::Tensor logits(const at::Tensor& hidden) const;

  // out = x weightᵀ as the layers take it. x: (n, in), weight: (out, in); out: (n, out), written
  virtual void multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const = 0;

  // Returns when the devices have done all that they were given: for who takes the time.
  void wait() const;

 protected:
  Transformer(const ModelConfig& config, WeightStore weights);

  // What of `project` is each head's own queries, keys and values.
  virtual Projections project_heads(const LayerWeights& weights, const at::Tensor& hidden) const = 0;
  // RMSNorm of the vectors (…, hidden_size), times the weight (hidden_size).
  virtual at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight) const = 0;
  // What of finish_layer goes through the output projection, and what through the feed-forward; both change
  // `hidden`.
  virtual void add_attention(const LayerWeights& weights, const at::Tensor& attention,
                             at::Tensor& hidden) const = 0;
  // (n, value heads, value_dim) float32; the state (value heads, key_dim, value_dim) goes on by n tokens, one
  // after another, so that the result does not depend on how tokens come in blocks.
  virtual at::Tensor delta_rule(const DeltaRuleInput& input, at::Tensor& memory) const = 0;
  virtual Routing add_mlp(const LayerWeights& weights, at::Tensor& hidden) const = 0;
  // out = the feed-forward of x, with or without experts; beside them also without. hidden: what x is the
  // norm of
  Routing feed(const LayerWeights& weights, const at::Tensor& hidden, const at::Tensor& x,
               at::Tensor& out) const;

  // What the model's feed-forward has between its projections, and its recurrent layers behind their
  // convolution: float32 x, SiLU or GELU (by tanh).
  at::Tensor activated(const at::Tensor& x) const;

  // out = down(act(gate(x)) · up(x)). x, out: (n, hidden_size); out is written. `clamped`: as experts may be
  virtual void feed_forward(const MlpWeights& weights, const at::Tensor& x, bool clamped,
                            at::Tensor& out) const = 0;

  // out = Σ over the experts that x is routed to, and the shared one. Tokens are grouped by expert, and every
  // group is one product; only experts that some token goes to are read. routed: what the router sees
  Routing mix_experts(const LayerWeights& weights, const at::Tensor& x, const at::Tensor& routed,
                      at::Tensor& out) const;
  // Of every group, and of one: what the expert makes of its tokens' x into their places (places,
  // hidden_size).
  virtual void run_groups(const ExpertWeights& experts, const std::vector<ExpertGroup>& groups,
                          const at::Tensor& x, at::Tensor& given) const = 0;
  void run_group(const ExpertWeights& experts, const ExpertGroup& group, const at::Tensor& x,
                 at::Tensor& given) const;

 private:
  Routing route(const LayerWeights& weights, const at::Tensor& x) const;
  // x weightᵀ + bias, the bias undefined where there is none.
  at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
  void add_layer_input(const LayerWeights& weights, const at::Tensor& layer_input, at::Tensor& hidden) const;
  Projections project_latent(const LayerWeights& weights, const at::Tensor& hidden) const;
  // Of a mixture of latents, or of expanded values, (n, n_heads · head_dim): the heads' outputs (n, H·V).
  at::Tensor latent_output(const LatentWeights& weights, const at::Tensor& mixed) const;

  ModelConfig config_;
  WeightStore weights_;
  Rope rope_, local_rope_;
};

// LibTorch's operations alone, on the device where the weights lie. It rounds where KernelTransformer does:
// what lies between two products is computed in float32 and rounded once, but for a norm's weight.
class AtenTransformer : public Transformer {
 public:
  AtenTransformer(const ModelConfig& config, WeightStore weights);

  Arithmetic arithmetic() const override { return Arithmetic::kAten; }
  void multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const override;

  // Of true positions first, …, first + n - 1 in a layer that rotates, on its device. Made on the host, so
  // that angles are the same everywhere, and kept for the layers after it.
  HeadRotation rotation(int layer, std::int64_t first, std::int64_t n) const;
  HeadRotation query_rotation(int layer, std::int64_t first, std::int64_t n) const;

 protected:
  Projections project_heads(const LayerWeights& weights, const at::Tensor& hidden) const override;
  at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight) const override;
  void add_attention(const LayerWeights& weights, const at::Tensor& attention,
                     at::Tensor& hidden) const override;
  at::Tensor delta_rule(const DeltaRuleInput& input, at::Tensor& memory) const override;
  Routing add_mlp(const LayerWeights& weights, at::Tensor& hidden) const override;
  void run_groups(const ExpertWeights& experts, const std::vector<ExpertGroup>& groups, const at::Tensor& x,
                  at::Tensor& given) const override;
  void feed_forward(const MlpWeights& weights, const at::Tensor& x, bool clamped,
                    at::Tensor& out) const override;

 private:
  struct Rotating {  // what it depends on
    const Rope* rope;
    std::int64_t head_dim, first, n;
    at::DeviceIndex device;
    bool queries;
    auto operator<=>(const Rotating&) const = default;
  };
  HeadRotation rotation(int layer, std::int64_t first, std::int64_t n, bool queries) const;
  at::Tensor normalized_heads(const at::Tensor& projected, const at::Tensor& weight) const;
  // hidden += branch, scaled as the model scales what a layer adds.
  void add_branch(const at::Tensor& branch, at::Tensor& hidden) const;

  mutable std::map<Rotating, HeadRotation> rotations_;
  mutable std::size_t rotation_bytes_ = 0;
};

// Memory that is used again and again for tensors of changing size.
class ScratchTensor {
 public:
  // (rows, cols), contiguous, its elements undefined; what was given before is invalid then.
  at::Tensor take(std::int64_t rows, std::int64_t cols, const at::TensorOptions& options);

 private:
  at::Tensor memory_;  // of one dimension, as large as the largest so far
};

// Our own loops between LibTorch's products, on the CPU. What lies between the products is kept from call to
// call, as pages that are given back have to be faulted in again.
class KernelTransformer : public Transformer {
 public:
  KernelTransformer(const ModelConfig& config, WeightStore weights);

  Arithmetic arithmetic() const override { return Arithmetic::kKernels; }
  void multiply(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) const override;

 protected:
  Projections project_heads(const LayerWeights& weights, const at::Tensor& hidden) const override;
  at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight) const override;
  void add_attention(const LayerWeights& weights, const at::Tensor& attention,
                     at::Tensor& hidden) const override;
  at::Tensor delta_rule(const DeltaRuleInput& input, at::Tensor& memory) const override;
  Routing add_mlp(const LayerWeights& weights, at::Tensor& hidden) const override;
  void run_groups(const ExpertWeights& experts, const std::vector<ExpertGroup>& groups, const at::Tensor& x,
                  at::Tensor& given) const override;
  void feed_forward(const MlpWeights& weights, const at::Tensor& x, bool clamped,
                    at::Tensor& out) const override;

 private:
  at::Tensor normalized_input(const at::Tensor& hidden, const at::Tensor& weight) const;
  void add_branch(at::Tensor& given, const at::Tensor& post_norm, at::Tensor& hidden) const;
  void normalize_into(const at::Tensor& x, const at::Tensor& weight, std::int64_t cols,
                      at::Tensor& out) const;

  mutable ScratchTensor normalized_, queries_, keys_, values_, output_gate_, projected_;
};

// Rows that a product takes at the speed at which memory gives it the weights: up to so many cost as much as
// one does, and give what each gives alone.
inline constexpr std::int64_t kThinRows = 4;

// out = x weightᵀ + bias. x: (n, in), weight: (out, in), bias: (out) or undefined; out: (n, out), written.
// Up to kThinRows rows are multiplied by a loop of our own that reads the weights once, at the speed of
// memory; more of them by LibTorch, or where its products are the slower ones by another of our own, in
// float32 sums of which a row's do not depend on the other rows.
void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out);

// The same into a tensor of its own.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// The product of our own, whatever the processor.
void wide_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& out);

// Whether more than kThinRows rows of this type go to oneDNN, which compiles a product for every number of
// rows that it meets, and keeps it, up to a megabyte each.
bool onednn_multiplies(at::ScalarType type);

}  // namespace keyscope::capture

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "capture/model/config.hpp"

namespace keyscope::capture {

// Which layers see through a sliding window where `layer_types` does not say; n as WindowRule has it.
enum class WindowedLayers {
  kNone,
  kAll,
  kFromNth,       // those from index n on
  kAllButNths,    // all but layers n - 1, 2n - 1, …
  kEvenBelowNth,  // 0, 2, … as far as they are below n
  kUnrotated,     // those without rotary positions
};

// A family's sliding windows.
struct WindowRule {
  WindowedLayers layers = WindowedLayers::kNone;
  std::int64_t n = 0;
  std::string_view n_field = {};  // what config.json may give n in; empty: nothing
  std::string_view flag = {};     // `sliding_window` counts only if this one is set; empty: always
  std::int64_t size = 0;          // of a window that config.json does not give
  bool last_sees_all = false;     // the last layer has none, whatever `layer_types` says
};

// A name that config.json may have for a kind of RoPE scaling.
struct RopeName {
  std::string_view name;
  RopeScaling::Kind kind;
};
const std::vector<RopeName>& usual_rope_names();

// The biases of attention's projections.
struct AttentionBiases {
  std::string_view field = "attention_bias";  // what config.json may say of them; empty: nothing
  bool by_default = false;
  bool of_output = true;  // they are the output projection's as well
};

// The RMSNorms around a layer's branches, by the names of their weights; empty: there is none at that place.
struct NormNames {
  std::string_view attention = "input_layernorm";     // of attention's input
  std::string_view after_attention = {};              // of its output, before it is added
  std::string_view mlp = "post_attention_layernorm";  // of the feed-forward's input
  std::string_view after_mlp = {};
};

// RMSNorm of queries and keys, before they rotate.
enum class HeadNorm {
  kNone,
  kEachHead,    // over a head's coordinates
  kProjection,  // over all heads' together
};

// Which layers have no rotary positions.
enum class UnrotatedLayers {
  kNone,
  kListed,         // 0 in `no_rope_layers`, by default every `no_rope_layer_interval`th
  kAllUnlessRope,  // all, unless `position_embedding_type` is "rope"
};

// How layers with a window rotate.
enum class LocalRotation {
  kAsOthers,
  kOwnTheta,  // by `rope_local_base_freq`, unscaled
  kUnscaled,  // by the theta of all, unscaled
};

// Weights of a feed-forward, without what stands before them in a layer; fused ones are stored as one matrix.
struct MlpNames {
  std::string_view prefix = "mlp.";
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string_view gate_up = {};  // of gate and up in one; empty: they are stored by themselves
};

// Which layers have experts.
enum class ExpertLayers {
  kAll,
  kChosen,       // as `decoder_sparse_step` and `mlp_only_layers` say
  kBehindFirst,  // those behind the first `first_k_dense_replace`
};

// Whether experts are chosen from some of `n_group` groups only, `topk_group` of them.
enum class ExpertGroups {
  kNone,
  kByMethod,  // if `topk_method` is "group_limited_greedy" and not "greedy"
  kAlways,
};

// A mixture of experts: what config.json calls its fields, and the checkpoint its weights.
struct ExpertsRule {
  std::string_view n_field = {};  // how many there are; empty: the family has none
  std::int64_t default_n = 0;
  std::int64_t default_per_token = 0;  // 0: it must be given
  std::string_view size_field = "moe_intermediate_size";
  std::int64_t default_size = 0;            // 0: it must be given
  std::string_view shared_size_field = {};  // empty: no expert is shared
  std::int64_t default_shared_size = 0;
  std::string_view n_shared_field = {};  // or how many are, each as large as another
  std::int64_t default_n_shared = 0;
  bool may_be_none = false;  // 0 experts mean that the shared one is all
  ExpertLayers layers = ExpertLayers::kAll;
  std::int64_t default_dense_layers = 0;  // kBehindFirst
  ExpertsConfig::Router router = ExpertsConfig::Router::kSoftmaxThenTop;
  bool renormalised = true;                  // where config.json does not say
  std::string_view renormalised_field = {};  // empty: it does not
  bool wide_router = false;                  // it is stored and multiplied in float32
  bool scaled_weights = false;               // `routed_scaling_factor` counts
  double default_weight_scale = 1;
  ExpertGroups groups = ExpertGroups::kNone;
  std::int64_t default_groups = 1, default_chosen_groups = 1;
  std::string_view scoring = {};  // what `scoring_func` must say where it is there; empty: it may not
  double default_clamp = 0;
  std::string_view prefix = "mlp.";  // of all its weights
  std::string_view router_name = "gate";
  std::string_view router_bias = {};  // its name behind the router's; empty: there is none
  // Those of experts by themselves, under experts.0. and so on; and what all of them in one tensor are
  // called: (n, 2 · intermediate, hidden) and (n, hidden, intermediate), or transposed with gate and up
  // interleaved.
  MlpNames names = {.prefix = "experts."};
  std::string_view all_gate_up = "experts.gate_up_proj", all_down = "experts.down_proj";
  bool transposed = false;
  bool biases = false;
  MlpNames shared = {.prefix = "shared_expert."};
  // What says whether there are experts at all, beside a feed-forward without; empty: nothing.
  std::string_view beside_dense_flag = {};
  std::string_view per_token_field = "num_experts_per_tok";
  std::string_view shared_gate = {};  // a logit, whose sigmoid multiplies the shared expert; empty: none
};

// How the Gated DeltaNet of layers that do not attend is stored, where `layer_types` or
// `full_attention_interval` says that there are such.
enum class RecurrentLayers {
  kNone,
  kByKeyHeads,  // rows of each key head together: its query, key, values and gates (Qwen3-Next)
  kByParts,     // queries, keys and values; gates; decays; rates of update: by themselves (Qwen3.5)
};

// Multi-head latent attention.
struct LatentRule {
  bool has = false;
  // What may say that neighbours rotate together, as is the default; empty: they do.
  std::string_view interleaved_field = {};
};

// Layers whose heads are of another shape, that borrow the keys of earlier ones, or that are given an input
// of their own: Gemma 4's.
struct LayerRule {
  // Layers without a window have heads of `global_head_dim`, and `num_global_key_value_heads` of them if
  // `attention_k_eq_v` says that their values are their keys, before either is normed; or as
  // `per_layer_config` says.
  std::int64_t default_global_head_dim = 0;  // 0: the family has none of all this
  std::int64_t default_input_size = 0;       // `hidden_size_per_layer_input`
  std::int64_t default_input_vocab = 0;      // `vocab_size_per_layer_input`
};

// What sets a model family apart from Llama, among those that share its layers: the only place that knows.
// Defaults are those of the family's configuration class in Hugging Face Transformers, for what a config.json
// leaves out.
struct Family {
  std::string_view model_type;    // as config.json names it
  std::string_view architecture;  // the class that its `architectures` lists
  std::string_view base_class;    // or, where it was saved without its head, this one
  AttentionBiases biases = {};
  HeadNorm head_norm = HeadNorm::kNone;
  NormNames norms = {};
  bool unit_offset_norms = false;  // norms multiply by 1 + weight
  bool fused_qkv = false;          // queries, keys and values are stored as one matrix
  MlpNames mlp = {};
  ExpertsRule experts = {};
  bool sinks = false;            // a learned sink logit per query head
  bool gated_attention = false;  // queries' projection holds a gate beside each head's query
  bool value_norm = false;       // RMSNorm of each head's value, without a weight
  LayerRule layers = {};
  RecurrentLayers recurrent = RecurrentLayers::kNone;
  LatentRule latent = {};
  bool scaled_embeddings = false;  // embeddings are multiplied by √hidden_size
  bool scaled_queries = false;     // by 1/√query_pre_attn_scalar instead of 1/√head_dim
  bool unscaled_queries = false;   // by 1
  bool multipliers = false;        // `embedding_multiplier` and its like count
  bool growing_queries = false;    // `llama_4_scaling_beta` counts
  bool softcaps = false;  // `final_logit_softcapping` counts, with a default also `attn_logit_softcapping`
  std::string_view activation_field = "hidden_act";
  std::string_view default_activation = "silu";
  WindowRule window = {};
  UnrotatedLayers unrotated = UnrotatedLayers::kNone;
  LocalRotation local_rotation = LocalRotation::kAsOthers;
  bool partial_rotation = false;  // `partial_rotary_factor` counts
  double default_rotated_share = 1;
  bool interleaved_rotation = false;
  std::vector<RopeName> rope_names = usual_rope_names();  // besides "default"
  std::string_view default_rope = {};  // JSON of `rope_parameters` where config.json has none; empty: default
  bool only_rope_parameters = false;   // `rope_theta` and the like outside of them do not count
  double default_theta = 10000;
  double default_local_theta = 0;
  double default_query_scalar = 0;
  double default_attention_softcap = 0;  // 0: none
  double default_logit_softcap = 0;
  double default_epsilon = 1e-6;
  bool default_tied = false;
  std::int64_t default_context = 2048;
  int default_further_layers = 0;
  std::int64_t default_original_context = 0;  // 0: `max_position_embeddings`
  std::int64_t default_kv_heads = 0;          // 0: as many as query heads
  std::int64_t default_head_dim = 0;          // 0: hidden_size / num_attention_heads
};

// Null where the family is not known.
const Family* find_family(std::string_view model_type);

const std::vector<Family>& known_families();

// Why models of a well-known family cannot be taken; empty where it is not one of those.
std::string_view why_refused(std::string_view model_type);

}  // namespace keyscope::capture

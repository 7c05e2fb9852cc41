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
  kFromNth,     // those from index n on
  kAllButNths,  // all but layers n - 1, 2n - 1, …
};

// A family's sliding windows.
struct WindowRule {
  WindowedLayers layers = WindowedLayers::kNone;
  std::int64_t n = 0;
  std::string_view n_field = {};  // what config.json may give n in; empty: nothing
  std::string_view flag = {};     // `sliding_window` counts only if this one is set; empty: always
  std::int64_t size = 0;          // of a window that config.json does not give
};

// A name that config.json may have for a kind of RoPE scaling.
struct RopeName {
  std::string_view name;
  RopeScaling::Kind kind;
};
const std::vector<RopeName>& usual_rope_names();

// What sets a model family apart from Llama, among those that share its layers: the only place that knows.
// Defaults are those of the family's configuration class in Hugging Face Transformers, for what a config.json
// leaves out.
struct Family {
  std::string_view model_type;    // as config.json names it
  std::string_view architecture;  // the class that its `architectures` lists
  std::string_view base_class;    // or, where it was saved without its head, this one
  bool qkv_bias = false;          // always biases of queries, keys and values, whatever `attention_bias` says
  bool qk_norm = false;           // RMSNorm over each head's query and key, before RoPE
  bool unit_offset_norms = false;  // norms multiply by 1 + weight
  bool post_norms = false;         // attention's and the MLP's output are normalised before they are added
  bool fused_projections = false;  // q, k, v are stored as one matrix, gate and up as another
  bool scaled_embeddings = false;  // embeddings are multiplied by √hidden_size
  bool scaled_queries = false;     // by 1/√query_pre_attn_scalar instead of 1/√head_dim
  bool softcaps = false;           // `attn_logit_softcapping` and `final_logit_softcapping` count
  std::string_view activation_field = "hidden_act";
  std::string_view default_activation = "silu";
  WindowRule window = {};
  std::vector<RopeName> rope_names = usual_rope_names();  // besides "default"
  double default_theta = 10000;
  double default_local_theta = 0;  // of layers with a window; 0: they rotate as the others do
  double default_query_scalar = 0;
  double default_attention_softcap = 0;  // 0: none
  double default_logit_softcap = 0;
  double default_epsilon = 1e-6;
  bool default_tied = false;
  std::int64_t default_context = 2048;
  std::int64_t default_original_context = 0;  // 0: `max_position_embeddings`
  std::int64_t default_kv_heads = 0;          // 0: as many as query heads
  std::int64_t default_head_dim = 0;          // 0: hidden_size / num_attention_heads
};

// Null where the family is not known.
const Family* find_family(std::string_view model_type);

const std::vector<Family>& known_families();

}  // namespace keyscope::capture

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/attention_rules.hpp"

namespace keyscope::capture {

// How rotary frequencies f_i = theta^(-2i/head_dim) are stretched for long contexts.
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,    // f_i / factor
    kDynamic,   // theta grows with the length seen, once that exceeds the original context (NTK-aware)
    kLlama3,    // f_i / factor for long wavelengths, f_i for short ones, a ramp between (Llama 3.1)
    kYarn,      // the same by the number of turns over the original context (YaRN, arXiv 2309.00071)
    kLongRope,  // f_i / long_factors_i once the length seen exceeds the original context, until then
                // f_i / short_factors_i (LongRoPE, arXiv 2402.13753)
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;                   // tokens
  double beta_fast = 32, beta_slow = 1;             // kYarn: turns at which the ramp begins and ends
  bool truncate = true;                             // kYarn: the ramp's ends are whole pairs of coordinates
  double attention_factor = 1;                      // kYarn, kLongRope: multiplies cosines and sines
  std::vector<double> short_factors, long_factors;  // kLongRope: (head_dim / 2)
  bool operator==(const RopeScaling&) const = default;
};

enum class HiddenActivation { kSilu, kGeluTanh };

// A model's shape, from its folder's config.json, checked field against field.
struct ModelConfig {
  std::string raw_json;  // config.json as read, or as a GGUF file would have it
  std::string model_type;
  std::string
      dtype;  // as the file says: float32, bfloat16, float16, auto (as the weights are stored), or empty
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;    // even
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;  // true positions are below it; with dynamic RoPE what it stretches to
  // Per layer, how many tokens back a query sees, its own included; 0: all. Empty: all in every layer.
  std::vector<std::int64_t> layer_windows;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double local_rope_theta = 0;   // of layers with a window, whose RoPE is not scaled; 0: as the others
  double attention_scale = 0;    // of q·k; 0: 1/√head_dim
  double attention_softcap = 0;  // c: scores become c tanh(score / c); 0: they do not
  double logit_softcap = 0;      // the same of the logits
  double embedding_scale = 1;    // embeddings are multiplied by it, rounded to the model's dtype
  HiddenActivation activation = HiddenActivation::kSilu;
  bool unit_offset_norms = false;    // norms multiply by 1 + weight
  bool post_norms = false;           // attention's and the MLP's output are normalised before they are added
  bool fused_projections = false;    // q, k, v are stored as one matrix, gate and up as another
  bool headless = false;             // saved without its head, which the checkpoint may lack
  bool tie_word_embeddings = false;  // one matrix for the embedding and the head
  bool qkv_bias = false;             // of the projections to queries, keys and values
  bool output_bias = false;          // of attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;                     // RMSNorm over each head's query and key, before RoPE
  std::vector<std::int32_t> eos_token_ids;  // of generation_config.json, else of config.json; may be empty

  std::int64_t window(int layer) const { return layer_windows.empty() ? 0 : layer_windows[layer]; }
  bool rotates_locally(int layer) const { return local_rope_theta > 0 && window(layer) > 0; }
};

// Reads the text of a config.json, such as a recording holds.
//   where: what messages name
//   throws FileError naming where, field, what was found and what was expected; an architecture, activation
//   or RoPE variant that is not supported is refused by name
ModelConfig parse_config(std::string raw_json, const std::string& where);

// Reads DIR/config.json and, where it is there, DIR/generation_config.json; of a GGUF file what it says
// instead.
//   throws FileError as parse_config does, naming the file
ModelConfig read_config(const std::filesystem::path& folder_or_gguf);

using analysis::AttentionRules;

// What a layer's attention does: for the engine, and for recomputing its weights from a recording.
//   layer: in [0, n_layers)
AttentionRules attention_rules(const ModelConfig& config, int layer);

// Of what a model's layers are computed. The results differ by roundings only.
enum class Arithmetic {
  kKernels,  // our own loops and LibTorch's products, on the CPU
  kAten,     // LibTorch's operations alone, on any device that it knows
};

}  // namespace keyscope::capture

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace keyscope::capture {

// How rotary frequencies f_i = theta^(-2i/head_dim) are stretched for long contexts.
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,  // f_i / factor
    kLlama3,  // f_i / factor for long wavelengths, f_i for short ones, a ramp between (Llama 3.1)
    kYarn,    // the same by the number of turns over the original context (YaRN, arXiv 2309.00071)
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;        // tokens
  double beta_fast = 32, beta_slow = 1;  // kYarn: turns at which the ramp begins and ends
  bool truncate = true;                  // kYarn: the ramp's ends are whole pairs of coordinates
  double attention_factor = 1;           // kYarn: multiplies cosines and sines
  bool operator==(const RopeScaling&) const = default;
};

// A model's shape, from its folder's config.json, checked field against field.
struct ModelConfig {
  std::string raw_json;  // config.json as read
  std::string model_type;
  std::string dtype;  // as the file says: float32, bfloat16, float16, or empty
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;    // even
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;  // true positions are below it
  std::int64_t sliding_window = 0;  // 0: none; the context ends with it, as what lies beyond is not supported
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;  // one matrix for the embedding and the head
  bool qkv_bias = false;             // of the projections to queries, keys and values
  bool output_bias = false;          // of attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;                     // RMSNorm over each head's query and key, before RoPE
  std::vector<std::int32_t> eos_token_ids;  // of generation_config.json, else of config.json; may be empty
};

// Reads DIR/config.json and, where it is there, DIR/generation_config.json.
//   throws FileError naming file, field, what was found and what was expected; an architecture, activation or
//   RoPE variant that is not supported is refused by name
ModelConfig read_config(const std::filesystem::path& folder);

}  // namespace keyscope::capture

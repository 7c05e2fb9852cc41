#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/attention_rules.hpp"
#include "capture/model/quantisation.hpp"

namespace keyscope::capture {

// How rotary frequencies f_i = theta^(-2i/head_dim) are stretched for long contexts.
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,        // f_i / factor
    kDynamic,       // theta grows with the length seen, once that exceeds the original context (NTK-aware)
    kLlama3,        // f_i / factor for long wavelengths, f_i for short ones, a ramp between (Llama 3.1)
    kYarn,          // the same by the number of turns over the original context (YaRN, arXiv 2309.00071)
    kProportional,  // f_i / factor for the first `rotated_share` of the pairs, 0 for the others (Gemma 4)
    kLongRope,      // f_i / long_factors_i once the length seen exceeds the original context, until then
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
  double rotated_share = 1;                         // kProportional
  std::vector<double> short_factors, long_factors;  // kLongRope: (rotary_dim / 2)
  bool operator==(const RopeScaling&) const = default;
};

enum class HiddenActivation { kSilu, kGeluTanh };

// A feed-forward of many parts, of which a router chooses a few for each token.
struct ExpertsConfig {
  enum class Router {
    kSoftmaxThenTop,  // the largest of softmax over all experts
    kTopThenSoftmax,  // softmax over the largest logits
    // the largest of sigmoid plus a learned bias, weighted by sigmoid alone; in float32 (arXiv 2412.19437,
    // Equations 13 to 16)
    kBiasedSigmoid,
  };
  int n = 0;  // 0: the model has none
  int per_token = 0;
  std::int64_t intermediate_size = 0;
  Router router = Router::kSoftmaxThenTop;
  bool renormalised = true;  // weights are divided by their sum
  double weight_scale = 1;   // and multiplied by this
  // Experts are chosen from so many of the groups into which they are divided; 1 of 1: from all. The groups
  // are those whose best expert is best or, with kBiasedSigmoid, whose two best have the largest sum.
  int n_groups = 1, chosen_groups = 1;
  // Of a feed-forward that every token goes through besides; 0: there is none.
  std::int64_t shared_intermediate_size = 0;
  // c: gate and up are cut at ±c (the gate above only), and activate as (up + 1) · gate · sigmoid(α gate)
  // with α = 1.702; 0: as in other models
  double clamp = 0;
  // Whether a layer of them has a feed-forward without experts beside, both of them normed before they are
  // added; the router then norms by itself what it sees, and an expert has a learned weight (Gemma 4).
  bool beside_dense = false;
};

// A layer that mixes tokens by a state instead of attention, and has no keys: Gated DeltaNet (arXiv
// 2412.06464) behind a short convolution.
struct RecurrentConfig {
  int n_key_heads = 0;             // 0: the model has no such layers
  int n_value_heads = 0;           // a multiple of n_key_heads
  int key_dim = 0, value_dim = 0;  // of a head
  int kernel = 0;                  // tokens that the convolution sees, its own included

  // Of the convolution: queries and keys of every key head, values of every value head.
  std::int64_t n_channels() const {
    return std::int64_t{2} * n_key_heads * key_dim + std::int64_t{n_value_heads} * value_dim;
  }
  // Of the state of one sequence, in elements.
  std::int64_t state_size() const { return std::int64_t{n_value_heads} * key_dim * value_dim; }
};

// Multi-head latent attention (arXiv 2405.04434, Section 2.1). What is cached of a token is one vector for
// all heads: R coordinates that rotate, and behind them a latent c of `rank`, from which each head's key and
// value are made. A head scores (q_r, q_p)ᵀ(k_r, Wᵏc) = (q_r, Wᵏᵀq_p)ᵀ(k_r, c), so that (k_r, c) is the one
// KV head's key, and (0, c) its value, of which a head's output is Wᵛ times the mixture.
struct LatentConfig {
  std::int64_t rank = 0;        // of the latent; 0: the model has none
  std::int64_t query_rank = 0;  // of the latent that queries are made of; 0: of the hidden state itself
  int rotated_dim = 0;          // R
  int plain_dim = 0;            // of a head's query that does not rotate
  int value_dim = 0;            // of a head
  bool expanded = false;  // every head has its key (k_r, Wᵏc) and value (Wᵛc, 0) in the cache instead
};

// What every layer is given of a token's id besides: a row of an embedding of its own, and a projection of
// the token's embedding (Gemma 3n and 4).
struct LayerInputConfig {
  std::int64_t size = 0;  // 0: the model has none
  std::int64_t vocab_size = 0;
};

using analysis::HeadShape;

// A model's shape, from its folder's config.json, checked field against field.
struct ModelConfig {
  std::string raw_json;  // config.json as read, or as a GGUF file would have it
  std::string model_type;
  std::string
      dtype;  // as the file says: float32, bfloat16, float16, auto (as the weights are stored), or empty
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;                  // divides n_heads; where layers differ, the most of any
  int head_dim = 0;                    // even; where layers differ, the largest
  std::vector<HeadShape> layer_heads;  // per layer, where they differ; empty: all have the same
  // Per layer, the earlier one whose keys and values it attends to, or itself; empty: all have their own.
  std::vector<int> layer_lenders;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  // of a feed-forward without experts; may be 0 where there is none
  bool wide_borrowers = false;         // it is twice that in layers that borrow keys
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;  // true positions are below it; with dynamic RoPE what it stretches to
  // Per layer, how many tokens back a query sees, its own included; 0: all. Empty: all in every layer.
  std::vector<std::int64_t> layer_windows;
  std::vector<bool> layer_rotates;  // per layer, whether it has rotary positions; empty: all have
  std::vector<bool> layer_attends;  // per layer, whether it has keys; empty: all have
  std::vector<bool> layer_experts;  // per layer, whether its feed-forward is one of experts; empty: none is
  double rms_norm_eps = 1e-6;
  int rotary_dim = 0;                 // even: the first coordinates of a head that rotate, the others stay
  bool interleaved_rotation = false;  // neighbours rotate together, not coordinates half of rotary_dim apart
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double local_rope_theta = 0;   // of layers with a window, whose RoPE is not scaled; 0: as the others
  int local_rotary_dim = 0;      // of theirs
  double attention_scale = 0;    // of q·k; 0: 1/√head_dim
  double attention_softcap = 0;  // c: scores become c tanh(score / c); 0: they do not
  double logit_softcap = 0;      // the same of the logits
  // Queries at position p are multiplied by 1 + β ln(1 + ⌊p / L⌋), after their rotation; β = 0: they are not.
  double query_growth = 0, query_growth_length = 1;
  double embedding_scale = 1;            // embeddings are multiplied by it
  bool rounded_embedding_scale = false;  // which is rounded to the model's dtype before
  double residual_scale = 1;             // attention's and the feed-forward's output are multiplied by it
  double logit_divisor = 1;
  HiddenActivation activation = HiddenActivation::kSilu;
  ExpertsConfig experts;
  RecurrentConfig recurrent;  // of layers that do not attend
  LatentConfig latent;
  LayerInputConfig layer_input;
  int n_further_layers = 0;  // that the checkpoint may have behind the last, to guess tokens ahead; not read
  bool unit_offset_norms = false;    // norms multiply by 1 + weight
  bool headless = false;             // saved without its head, which the checkpoint may lack
  bool tie_word_embeddings = false;  // one matrix for the embedding and the head
  bool qkv_bias = false;             // of the projections to queries, keys and values
  bool output_bias = false;          // of attention's output projection
  bool mlp_bias = false;
  bool attention_sinks = false;  // a learned logit per query head that takes its share of attention
  bool attention_gate = false;   // attention's output is multiplied by the sigmoid of a projection
  bool value_norm = false;       // RMSNorm of each head's value, without a weight
  bool keys_as_values = false;   // in layers without a window values are projected as keys are
  bool layer_scale = false;      // a layer's output is multiplied by a learned number
  Quantisation quantisation;     // how the weights are packed, if they are
  std::vector<std::int32_t> eos_token_ids;  // of generation_config.json, else of config.json; may be empty

  std::int64_t window(int layer) const { return layer_windows.empty() ? 0 : layer_windows[layer]; }
  bool attends(int layer) const { return layer_attends.empty() || layer_attends[layer]; }
  int n_attending() const {
    return layer_attends.empty()
               ? n_layers
               : static_cast<int>(std::count(layer_attends.begin(), layer_attends.end(), true));
  }
  std::vector<int> keyless_layers() const {  // that do not attend, ascending
    std::vector<int> layers;
    for (int layer = 0; layer < n_layers; ++layer)
      if (!attends(layer)) layers.push_back(layer);
    return layers;
  }
  HeadShape heads(int layer) const {
    return layer_heads.empty() ? HeadShape{n_kv_heads, head_dim} : layer_heads[layer];
  }
  int lender(int layer) const { return layer_lenders.empty() ? layer : layer_lenders[layer]; }
  bool borrows(int layer) const { return lender(layer) != layer; }
  int last_reader(int layer) const {  // of a layer's keys: itself where nobody borrows them
    int last = layer;
    for (int other = layer + 1; other < n_layers; ++other)
      if (lender(other) == layer) last = other;
    return last;
  }
  std::int64_t mlp_size(int layer) const {  // of its feed-forward without experts
    return wide_borrowers && borrows(layer) ? 2 * intermediate_size : intermediate_size;
  }
  // Of the keys and values that a layer caches of a token: in elements, those of a latent once; 0 where it
  // has none, or another layer's.
  std::int64_t cached_elements(int layer) const;
  bool rotates(int layer) const { return layer_rotates.empty() || layer_rotates[layer]; }
  bool rotates_locally(int layer) const { return local_rope_theta > 0 && window(layer) > 0; }
  bool has_experts(int layer) const { return !layer_experts.empty() && layer_experts[layer]; }
};

// Reads the text of a config.json, such as a recording holds.
//   where: what messages name
//   throws FileError naming where, field, what was found and what was expected; an architecture, activation
//   or RoPE variant that is not supported is refused by name
ModelConfig parse_config(std::string raw_json, const std::string& where);

// Makes every head's own keys and values what is cached, instead of the latent.
//   throws UsageError where the model has no latent
void expand_keys(ModelConfig& config);

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

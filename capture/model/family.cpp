#include "capture/model/family.hpp"

#include <algorithm>
#include <iterator>

namespace keyscope::capture {

const std::vector<RopeName>& usual_rope_names() {
  using Kind = RopeScaling::Kind;
  static const std::vector<RopeName> kNames{{"linear", Kind::kLinear},
                                            {"dynamic", Kind::kDynamic},
                                            {"llama3", Kind::kLlama3},
                                            {"yarn", Kind::kYarn},
                                            {"longrope", Kind::kLongRope}};
  return kNames;
}

// Of Qwen2 and Qwen3, which use them only where `use_sliding_window` says so.
constexpr WindowRule kQwenWindows{.layers = WindowedLayers::kFromNth,
                                  .n = 28,
                                  .n_field = "max_window_layers",
                                  .flag = "use_sliding_window",
                                  .size = 4096};

// Of OLMo 2 and 3: no norm before a branch, one after it.
constexpr NormNames kOlmoNorms{.attention = {},
                               .after_attention = "post_attention_layernorm",
                               .mlp = {},
                               .after_mlp = "post_feedforward_layernorm"};

constexpr NormNames kGemmaNorms{.after_attention = "post_attention_layernorm",
                                .mlp = "pre_feedforward_layernorm",
                                .after_mlp = "post_feedforward_layernorm"};

// Of Qwen's mixtures; shared_size 0: no expert is shared.
constexpr ExpertsRule qwen_experts(std::int64_t n, std::int64_t per_token, std::int64_t size,
                                   std::int64_t shared_size) {
  ExpertsRule rule{.n_field = "num_experts",
                   .default_n = n,
                   .default_per_token = per_token,
                   .default_size = size,
                   .layers = ExpertLayers::kChosen,
                   .renormalised = false,
                   .renormalised_field = "norm_topk_prob"};
  if (shared_size == 0) return rule;
  rule.shared_size_field = "shared_expert_intermediate_size";
  rule.default_shared_size = shared_size;
  rule.shared_gate = "shared_expert_gate";
  return rule;
}

constexpr ExpertsRule renormalised_by_default(ExpertsRule rule) {
  rule.renormalised = true;
  return rule;
}

constexpr ExpertsRule always_renormalised(ExpertsRule rule) {
  rule.renormalised = true;
  rule.renormalised_field = {};
  rule.layers = ExpertLayers::kAll;
  return rule;
}

// Of DeepSeek V2, as Transformers has them.
constexpr ExpertsRule kDeepseek2Experts{.n_field = "n_routed_experts",
                                        .default_n = 64,
                                        .default_size = 1407,
                                        .n_shared_field = "n_shared_experts",
                                        .default_n_shared = 2,
                                        .layers = ExpertLayers::kBehindFirst,
                                        .renormalised = false,
                                        .wide_router = true,
                                        .scaled_weights = true,
                                        .groups = ExpertGroups::kByMethod,
                                        .scoring = "softmax",
                                        .shared = {.prefix = "shared_experts."}};

constexpr ExpertsRule kDeepseek3Experts{.n_field = "n_routed_experts",
                                        .default_n = 256,
                                        .default_per_token = 8,
                                        .default_size = 2048,
                                        .n_shared_field = "n_shared_experts",
                                        .default_n_shared = 1,
                                        .layers = ExpertLayers::kBehindFirst,
                                        .default_dense_layers = 3,
                                        .router = ExpertsConfig::Router::kBiasedSigmoid,
                                        .renormalised_field = "norm_topk_prob",
                                        .wide_router = true,
                                        .scaled_weights = true,
                                        .default_weight_scale = 2.5,
                                        .groups = ExpertGroups::kAlways,
                                        .default_groups = 8,
                                        .default_chosen_groups = 4,
                                        .scoring = "sigmoid",
                                        .router_bias = "e_score_correction_bias",
                                        .shared = {.prefix = "shared_experts."}};

// A new family of these layers joins with its entry here.
const std::vector<Family>& known_families() {
  using Kind = RopeScaling::Kind;
  static const std::vector<Family> kFamilies{
      // Llama 1 to 3.x, TinyLlama, SmolLM2
      {.model_type = "llama", .architecture = "LlamaForCausalLM", .base_class = "LlamaModel"},
      // Qwen2, Qwen2.5
      {.model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .base_class = "Qwen2Model",
       .biases = {.field = {}, .by_default = true, .of_output = false},
       .window = kQwenWindows,
       .default_context = 32768,
       .default_kv_heads = 32},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .base_class = "Qwen3Model",
       .head_norm = HeadNorm::kEachHead,
       .window = kQwenWindows,
       .default_context = 32768,
       .default_kv_heads = 32,
       .default_head_dim = 128},
      {.model_type = "mistral",
       .architecture = "MistralForCausalLM",
       .base_class = "MistralModel",
       .window = {.layers = WindowedLayers::kAll, .size = 4096},
       .default_context = 131072,
       .default_kv_heads = 8},
      {.model_type = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .base_class = "Gemma2Model",
       .norms = kGemmaNorms,
       .unit_offset_norms = true,
       .scaled_embeddings = true,
       .scaled_queries = true,
       .softcaps = true,
       .activation_field = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .window = {.layers = WindowedLayers::kAllButNths, .n = 2, .size = 4096},
       .default_query_scalar = 256,
       .default_attention_softcap = 50,
       .default_logit_softcap = 30,
       .default_tied = true,
       .default_context = 8192,
       .default_kv_heads = 4,
       .default_head_dim = 256},
      // Gemma 3's models of text alone, and the text part of those saved by themselves
      {.model_type = "gemma3_text",
       .architecture = "Gemma3ForCausalLM",
       .base_class = "Gemma3TextModel",
       .head_norm = HeadNorm::kEachHead,
       .norms = kGemmaNorms,
       .unit_offset_norms = true,
       .scaled_embeddings = true,
       .scaled_queries = true,
       .softcaps = true,
       .activation_field = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .window =
           {.layers = WindowedLayers::kAllButNths, .n = 6, .n_field = "sliding_window_pattern", .size = 4096},
       .local_rotation = LocalRotation::kOwnTheta,
       .rope_names = {{"linear", Kind::kLinear}},
       .default_theta = 1e6,
       .default_local_theta = 10000,
       .default_query_scalar = 256,
       .default_tied = true,
       .default_context = 131072,
       .default_kv_heads = 4,
       .default_head_dim = 256},
      // Gemma 4, of which the text part alone is run
      {.model_type = "gemma4_text",
       .architecture = "Gemma4ForCausalLM",
       .base_class = "Gemma4TextModel",
       .head_norm = HeadNorm::kEachHead,
       .norms = kGemmaNorms,
       .experts = {.n_field = "num_experts",
                   .prefix = "",
                   .router_name = "router.proj",
                   .beside_dense_flag = "enable_moe_block",
                   .per_token_field = "top_k_experts"},
       .value_norm = true,
       .layers = {.default_global_head_dim = 512, .default_input_size = 256, .default_input_vocab = 262144},
       .scaled_embeddings = true,
       .unscaled_queries = true,
       .softcaps = true,
       .activation_field = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .window = {.layers = WindowedLayers::kAllButNths, .n = 6, .size = 512, .last_sees_all = true},
       .local_rotation = LocalRotation::kOwnTheta,
       .partial_rotation = true,
       .rope_names = {{"proportional", Kind::kProportional}},
       .default_rope = R"({"rope_type": "proportional", "partial_rotary_factor": 0.25})",
       .only_rope_parameters = true,
       .default_theta = 1e6,
       .default_local_theta = 10000,
       .default_tied = true,
       .default_context = 131072,
       .default_kv_heads = 4,
       .default_head_dim = 256},
      // Phi-3, Phi-3.5 mini; its long contexts were first called by other names
      {.model_type = "phi3",
       .architecture = "Phi3ForCausalLM",
       .base_class = "Phi3Model",
       .fused_qkv = true,
       .mlp = {.gate_up = "gate_up_proj"},
       .window = {.layers = WindowedLayers::kAll},
       .partial_rotation = true,
       .rope_names = {{"longrope", Kind::kLongRope}, {"su", Kind::kLongRope}, {"yarn", Kind::kLongRope}},
       .default_epsilon = 1e-5,
       .default_context = 4096,
       .default_original_context = 4096},
      {.model_type = "smollm3",
       .architecture = "SmolLM3ForCausalLM",
       .base_class = "SmolLM3Model",
       .window = {.layers = WindowedLayers::kUnrotated, .flag = "use_sliding_window"},
       .unrotated = UnrotatedLayers::kListed,
       .default_theta = 2e6,
       .default_tied = true,
       .default_context = 32768,
       .default_kv_heads = 4},
      {.model_type = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .base_class = "Olmo2Model",
       .head_norm = HeadNorm::kProjection,
       .norms = kOlmoNorms,
       .default_epsilon = 1e-5},
      {.model_type = "olmo3",
       .architecture = "Olmo3ForCausalLM",
       .base_class = "Olmo3Model",
       .head_norm = HeadNorm::kProjection,
       .norms = kOlmoNorms,
       .window = {.layers = WindowedLayers::kAllButNths, .n = 4, .size = 4096},
       .local_rotation = LocalRotation::kUnscaled,
       .default_theta = 5e5,
       .default_epsilon = 1e-5},
      // Granite 3
      {.model_type = "granite",
       .architecture = "GraniteForCausalLM",
       .base_class = "GraniteModel",
       .multipliers = true},
      // Granite 4, as far as its layers attend
      {.model_type = "granitemoehybrid",
       .architecture = "GraniteMoeHybridForCausalLM",
       .base_class = "GraniteMoeHybridModel",
       .experts = {.n_field = "num_local_experts",
                   .default_n = 8,
                   .default_per_token = 2,
                   .size_field = "intermediate_size",
                   .default_size = 11008,
                   .shared_size_field = "shared_intermediate_size",
                   .default_shared_size = 1024,
                   .may_be_none = true,
                   .router = ExpertsConfig::Router::kTopThenSoftmax,
                   .prefix = {},
                   .router_name = "block_sparse_moe.router.layer",
                   .all_gate_up = "block_sparse_moe.input_linear.weight",
                   .all_down = "block_sparse_moe.output_linear.weight",
                   .shared = {.prefix = "shared_mlp.", .down = "output_linear", .gate_up = "input_linear"}},
       .multipliers = true,
       .unrotated = UnrotatedLayers::kAllUnlessRope},
      {.model_type = "ministral3",
       .architecture = "Ministral3ForCausalLM",
       .base_class = "Ministral3Model",
       .growing_queries = true,
       .window = {.layers = WindowedLayers::kAll},
       .default_rope = R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
                           "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0,
                           "llama_4_scaling_beta": 0.1})",
       .default_epsilon = 1e-5,
       .default_context = 262144,
       .default_kv_heads = 8,
       .default_head_dim = 128},
      {.model_type = "glm",
       .architecture = "GlmForCausalLM",
       .base_class = "GlmModel",
       .biases = {.by_default = true, .of_output = false},
       .mlp = {.gate_up = "gate_up_proj"},
       .partial_rotation = true,
       .default_rotated_share = 0.5,
       .interleaved_rotation = true,
       .default_epsilon = 1.5625e-7,
       .default_context = 131072,
       .default_kv_heads = 2,
       .default_head_dim = 128},
      {.model_type = "glm4",
       .architecture = "Glm4ForCausalLM",
       .base_class = "Glm4Model",
       .biases = {.by_default = true, .of_output = false},
       .norms = {.after_attention = "post_self_attn_layernorm", .after_mlp = "post_mlp_layernorm"},
       .mlp = {.gate_up = "gate_up_proj"},
       .partial_rotation = true,
       .default_rotated_share = 0.5,
       .interleaved_rotation = true,
       .default_epsilon = 1.5625e-7,
       .default_context = 131072,
       .default_kv_heads = 2,
       .default_head_dim = 128},
      {.model_type = "mixtral",
       .architecture = "MixtralForCausalLM",
       .base_class = "MixtralModel",
       .biases = {.field = {}},
       .experts = {.n_field = "num_local_experts",
                   .default_n = 8,
                   .default_per_token = 2,
                   .size_field = "intermediate_size",
                   .prefix = "block_sparse_moe.",
                   .names = {.prefix = "experts.", .gate = "w1", .up = "w3", .down = "w2"}},
       .window = {.layers = WindowedLayers::kAll},
       .default_theta = 1e6,
       .default_epsilon = 1e-5,
       .default_context = 131072,
       .default_kv_heads = 8},
      {.model_type = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .base_class = "Qwen3MoeModel",
       .head_norm = HeadNorm::kEachHead,
       .experts = qwen_experts(128, 8, 768, 0),
       .window = {.layers = WindowedLayers::kAll, .flag = "use_sliding_window", .size = 4096},
       .default_context = 32768,
       .default_kv_heads = 4},
      {.model_type = "qwen2_moe",
       .architecture = "Qwen2MoeForCausalLM",
       .base_class = "Qwen2MoeModel",
       .biases = {.field = "qkv_bias", .by_default = true, .of_output = false},
       .experts = qwen_experts(60, 4, 1408, 5632),
       .window = {.layers = WindowedLayers::kEvenBelowNth,
                  .n = 28,
                  .n_field = "max_window_layers",
                  .flag = "use_sliding_window",
                  .size = 4096},
       .default_context = 32768,
       .default_kv_heads = 16},
      {.model_type = "qwen3_next",
       .architecture = "Qwen3NextForCausalLM",
       .base_class = "Qwen3NextModel",
       .head_norm = HeadNorm::kEachHead,
       .unit_offset_norms = true,
       .experts = renormalised_by_default(qwen_experts(512, 10, 512, 512)),
       .gated_attention = true,
       .recurrent = RecurrentLayers::kByKeyHeads,
       .partial_rotation = true,
       .default_rotated_share = 0.25,
       .default_context = 32768,
       .default_kv_heads = 2,
       .default_head_dim = 256},
      {.model_type = "qwen3_5_text",
       .architecture = "Qwen3_5ForCausalLM",
       .base_class = "Qwen3_5TextModel",
       .head_norm = HeadNorm::kEachHead,
       .unit_offset_norms = true,
       .gated_attention = true,
       .recurrent = RecurrentLayers::kByParts,
       .partial_rotation = true,
       .default_rotated_share = 0.25,
       .default_context = 32768,
       .default_kv_heads = 4,
       .default_head_dim = 256},
      {.model_type = "qwen3_5_moe_text",
       .architecture = "Qwen3_5MoeForCausalLM",
       .base_class = "Qwen3_5MoeTextModel",
       .head_norm = HeadNorm::kEachHead,
       .unit_offset_norms = true,
       .experts = always_renormalised(qwen_experts(256, 8, 512, 512)),
       .gated_attention = true,
       .recurrent = RecurrentLayers::kByParts,
       .partial_rotation = true,
       .default_rotated_share = 0.25,
       .default_context = 32768,
       .default_kv_heads = 2,
       .default_head_dim = 256},
      {.model_type = "gpt_oss",
       .architecture = "GptOssForCausalLM",
       .base_class = "GptOssModel",
       .biases = {.by_default = true},
       .experts = {.n_field = "num_local_experts",
                   .default_n = 128,
                   .default_per_token = 4,
                   .size_field = "intermediate_size",
                   .router = ExpertsConfig::Router::kTopThenSoftmax,
                   .default_clamp = 7,
                   .router_name = "router",
                   .router_bias = "bias",
                   .transposed = true,
                   .biases = true},
       .sinks = true,
       .window = {.layers = WindowedLayers::kAllButNths, .n = 2, .size = 128},
       .default_rope = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                           "truncate": false, "original_max_position_embeddings": 4096})",
       .default_theta = 150000,
       .default_epsilon = 1e-5,
       .default_context = 131072,
       .default_kv_heads = 8,
       .default_head_dim = 64},
      {.model_type = "deepseek_v2",
       .architecture = "DeepseekV2ForCausalLM",
       .base_class = "DeepseekV2Model",
       .experts = kDeepseek2Experts,
       .latent = {.has = true}},
      // DeepSeek V3 and R1, Moonlight
      {.model_type = "deepseek_v3",
       .architecture = "DeepseekV3ForCausalLM",
       .base_class = "DeepseekV3Model",
       .experts = kDeepseek3Experts,
       .latent = {.has = true, .interleaved_field = "rope_interleave"},
       .default_context = 4096,
       .default_further_layers = 1},
  };
  return kFamilies;
}

std::string_view why_refused(std::string_view model_type) {
  constexpr std::string_view kBorrowed =
      "its late layers borrow the keys and values of earlier ones, and its hidden states run side by side";
  constexpr std::string_view kMamba = "its layers without attention are Mamba's, which are not supported";
  constexpr std::string_view kNoKeys = "it does not attend, so that there are no keys to look at";
  constexpr std::string_view kChunks = "its queries see no further than their own chunk of the text";
  constexpr std::string_view kChosen = "its attention chooses for each query which keys it sees";
  constexpr std::string_view kLayerNorm = "its norms are LayerNorm, and RMSNorm is what is supported";
  constexpr std::string_view kEncoder = "its tokens also see what comes after them";
  struct Refused {
    std::string_view model_type, why;
  };
  static constexpr Refused kRefused[] = {
      {"gemma3n", kBorrowed},    {"gemma3n_text", kBorrowed}, {"jamba", kMamba},
      {"bamba", kMamba},         {"falcon_h1", kMamba},       {"nemotron_h", kMamba},
      {"zamba2", kMamba},        {"mamba", kNoKeys},          {"mamba2", kNoKeys},
      {"falcon_mamba", kNoKeys}, {"rwkv", kNoKeys},           {"llama4", kChunks},
      {"llama4_text", kChunks},  {"deepseek_v32", kChosen},   {"gpt2", kLayerNorm},
      {"gpt_neox", kLayerNorm},  {"opt", kLayerNorm},         {"phi", kLayerNorm},
      {"falcon", kLayerNorm},    {"stablelm", kLayerNorm},    {"cohere", kLayerNorm},
      {"cohere2", kLayerNorm},   {"starcoder2", kLayerNorm},  {"bert", kEncoder},
      {"roberta", kEncoder},     {"modernbert", kEncoder},    {"t5", kEncoder}};
  const auto* found = std::ranges::find(kRefused, model_type, &Refused::model_type);
  return found == std::end(kRefused) ? std::string_view() : found->why;
}

const Family* find_family(std::string_view model_type) {
  const auto& families = known_families();
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace keyscope::capture

#include "capture/model/family.hpp"

#include <algorithm>

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
       .qkv_bias = true,
       .window = kQwenWindows,
       .default_context = 32768,
       .default_kv_heads = 32},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .base_class = "Qwen3Model",
       .qk_norm = true,
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
       .unit_offset_norms = true,
       .post_norms = true,
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
       .qk_norm = true,
       .unit_offset_norms = true,
       .post_norms = true,
       .scaled_embeddings = true,
       .scaled_queries = true,
       .softcaps = true,
       .activation_field = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .window =
           {.layers = WindowedLayers::kAllButNths, .n = 6, .n_field = "sliding_window_pattern", .size = 4096},
       .rope_names = {{"linear", Kind::kLinear}},
       .default_theta = 1e6,
       .default_local_theta = 10000,
       .default_query_scalar = 256,
       .default_tied = true,
       .default_context = 131072,
       .default_kv_heads = 4,
       .default_head_dim = 256},
      // Phi-3, Phi-3.5 mini; its long contexts were first called by other names
      {.model_type = "phi3",
       .architecture = "Phi3ForCausalLM",
       .base_class = "Phi3Model",
       .fused_projections = true,
       .window = {.layers = WindowedLayers::kAll},
       .rope_names = {{"longrope", Kind::kLongRope}, {"su", Kind::kLongRope}, {"yarn", Kind::kLongRope}},
       .default_epsilon = 1e-5,
       .default_context = 4096,
       .default_original_context = 4096},
  };
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto& families = known_families();
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace keyscope::capture

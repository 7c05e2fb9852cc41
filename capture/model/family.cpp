#include "capture/model/family.hpp"

#include <algorithm>

namespace keyscope::capture {

// A new family of these layers joins with its entry here.
const std::vector<Family>& known_families() {
  static const std::vector<Family> kFamilies{
      // Llama 1 to 3.x, TinyLlama, SmolLM2
      {.model_type = "llama", .architecture = "LlamaForCausalLM"},
      // Qwen2, Qwen2.5
      {.model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .qkv_bias = true,
       .window = true,
       .window_flag = "use_sliding_window",
       .default_window = 4096,
       .default_context = 32768,
       .default_kv_heads = 32},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .qk_norm = true,
       .window = true,
       .window_flag = "use_sliding_window",
       .default_window = 4096,
       .default_context = 32768,
       .default_kv_heads = 32,
       .default_head_dim = 128},
      {.model_type = "mistral",
       .architecture = "MistralForCausalLM",
       .window = true,
       .default_window = 4096,
       .default_context = 131072,
       .default_kv_heads = 8},
  };
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto& families = known_families();
  const auto found = std::ranges::find(families, model_type, &Family::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace keyscope::capture

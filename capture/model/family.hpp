#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace keyscope::capture {

// What sets a model family apart from Llama, among those that share its layers: the only place that knows.
// Defaults are those of the family's configuration class in Hugging Face Transformers, for what a config.json
// leaves out.
struct Family {
  std::string_view model_type;    // as config.json names it
  std::string_view architecture;  // the class that its `architectures` lists
  bool qkv_bias = false;  // queries, keys and values always have biases, whatever `attention_bias` says
  bool qk_norm = false;   // RMSNorm over each head's query and key, before RoPE
  // A sliding window applies if `sliding_window` is a number and this flag, where the family has one, is set.
  bool window = false;
  std::string_view window_flag = {};
  std::int64_t default_window = 0;  // 0: none
  std::int64_t default_context = 2048;
  std::int64_t default_kv_heads = 0;  // 0: as many as query heads
  std::int64_t default_head_dim = 0;  // 0: hidden_size / num_attention_heads
};

// Null where the family is not known.
const Family* find_family(std::string_view model_type);

const std::vector<Family>& known_families();

}  // namespace keyscope::capture

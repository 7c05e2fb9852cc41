#include "capture/model/gguf_architecture.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.hpp"

namespace keyscope::capture {

using gguf::Container;
using gguf::Tensor;
using gguf::Value;

// What llama.cpp's converter makes of which class, and what is done to its weights:
// https://github.com/ggml-org/llama.cpp, conversion/ (once convert_hf_to_gguf.py).
const std::vector<GgufArchitecture>& known_gguf_architectures() {
  static const std::vector<GgufArchitecture> kArchitectures{
      {.name = "llama", .model_type = "mixtral", .if_key = "expert_count", .permuted = true},
      {.name = "llama", .model_type = "mistral", .if_key = "attention.sliding_window", .permuted = true},
      // Llama, Mistral without a window, SmolLM2, TinyLlama
      {.name = "llama", .model_type = "llama", .permuted = true},
      {.name = "mistral3", .model_type = "ministral3", .permuted = true},
      {.name = "smollm3", .model_type = "smollm3", .permuted = true},
      {.name = "granite", .model_type = "granite", .permuted = true},
      {.name = "qwen2", .model_type = "qwen2"},
      {.name = "qwen2moe", .model_type = "qwen2_moe"},
      {.name = "qwen3", .model_type = "qwen3"},
      {.name = "qwen3moe", .model_type = "qwen3_moe"},
      {.name = "gemma2", .model_type = "gemma2"},
      {.name = "gemma3", .model_type = "gemma3_text"},
      {.name = "phi3", .model_type = "phi3"},
      {.name = "olmo2", .model_type = "olmo3", .if_key = "attention.sliding_window"},
      {.name = "olmo2", .model_type = "olmo2"},
      {.name = "chatglm", .model_type = "glm"},
      {.name = "glm4", .model_type = "glm4"},
      // What the name says of the norm is so in other architectures: here it is the feed-forward's.
      {.name = "gpt-oss",
       .model_type = "gpt_oss",
       .names = {{"post_attention_norm", "post_attention_layernorm"}}},
  };
  return kArchitectures;
}

const GgufArchitecture& gguf_architecture(const Container& file) {
  const Value& value = file.require("general.architecture");
  const GgufFields fields(file);
  std::vector<std::string_view> known;
  for (const GgufArchitecture& each : known_gguf_architectures()) {
    if (each.name == value.string() && (each.if_key.empty() || fields.count_or(each.if_key, 0) > 0))
      return each;
    if (each.if_key.empty()) known.push_back(each.name);
  }
  value.fail(shown(value.string()),
             fmt::format("one of {}; others are not supported", fmt::join(known, ", ")));
}

namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 31;

}  // namespace

GgufFields::GgufFields(const Container& file)
    : file_(file), prefix_(fmt::format("{}.", file.require("general.architecture").string())) {}

const Value* GgufFields::find(std::string_view key) const { return file_.find(prefix_ + std::string(key)); }

const Value& GgufFields::require(std::string_view key) const {
  return file_.require(prefix_ + std::string(key));
}

std::int64_t GgufFields::count(std::string_view key) const {
  const Value& value = require(key);
  if (!value.is_array()) return value.integer(0, kLargest);
  std::optional<std::int64_t> same;
  value.for_each([&](const Value& of_layer) {
    const std::int64_t count = of_layer.integer(0, kLargest);
    if (same && *same != count)
      value.fail("a list of different numbers", "the same in every layer; others are not supported");
    same = count;
  });
  if (!same) value.fail("an empty list", "an integer");
  return *same;
}

std::int64_t GgufFields::count_or(std::string_view key, std::int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : count(key);
}

std::optional<double> GgufFields::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->number();
  if (!std::isfinite(number)) value->fail(fmt::format("{}", number), "a finite number");
  return number;
}

const Tensor* GgufFields::tensor(std::string_view name) const {
  const auto found = file_.tensors().find(name);
  return found == file_.tensors().end() ? nullptr : found->second;
}

}  // namespace keyscope::capture

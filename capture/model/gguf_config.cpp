#include "capture/model/gguf_config.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/config_fields.hpp"

namespace keyscope::capture {

// What converters write: https://github.com/ggml-org/llama.cpp, conversion/ (once convert_hf_to_gguf.py), and
// gguf-py/gguf/constants.py for the names.

namespace {

using gguf::Container;
using gguf::Tensor;
using gguf::Value;
using ConfigJson = nlohmann::ordered_json;

// Puts integers into `json` under the names of Hugging Face, those that are there.
void copy_counts(const GgufFields& from, ConfigJson& json,
                 std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [key, name] : names)
    if (from.find(key) != nullptr) json[name] = from.count(key);
}

// --- what every model has ---

void add_sizes(const GgufFields& from, ConfigJson& config) {
  const Tensor* embedding = from.tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    throw FileError(
        fmt::format("{}: has no matrix token_embd.weight; expected a language model", from.file().name()));
  copy_counts(from, config,
              {{"embedding_length", "hidden_size"},
               {"feed_forward_length", "intermediate_size"},
               {"block_count", "num_hidden_layers"},
               {"attention.head_count", "num_attention_heads"},
               {"attention.head_count_kv", "num_key_value_heads"},
               {"context_length", "max_position_embeddings"}});
  for (const char* key : {"embedding_length", "feed_forward_length", "block_count", "attention.head_count",
                          "context_length", "attention.layer_norm_rms_epsilon"})
    from.require(key);
  if (const std::int64_t n_layers = from.count("block_count"); n_layers > kMostLayers)
    from.require("block_count").fail(std::to_string(n_layers), fmt::format("at most {}", kMostLayers));
  const std::int64_t n_heads = from.count("attention.head_count"), width = from.count("embedding_length");
  if (n_heads == 0) from.require("attention.head_count").fail("0", "1 or more");
  if (!config.contains("num_key_value_heads")) config["num_key_value_heads"] = n_heads;
  config["head_dim"] = from.count_or("attention.key_length", width / n_heads);
  if (const Value* value = from.find("attention.value_length");
      value != nullptr && from.count("attention.value_length") != config["head_dim"])
    value->fail(std::to_string(from.count("attention.value_length")),
                fmt::format("{}, as keys have", config["head_dim"].get<std::int64_t>()));
  config["vocab_size"] = embedding->shape.front();
  config["rms_norm_eps"] = *from.number("attention.layer_norm_rms_epsilon");
}

void add_eos(const Container& file, ConfigJson& config) {
  ConfigJson ids = ConfigJson::array();
  for (const char* name : {"eos", "eot", "eom"}) {
    const Value* value = file.find(fmt::format("tokenizer.ggml.{}_token_id", name));
    if (value == nullptr) continue;
    const std::int64_t id = value->integer(0, UINT32_MAX);
    if (id <= INT32_MAX && std::ranges::find(ids, ConfigJson(id)) == ids.end()) ids.push_back(id);
  }
  if (!ids.empty()) config["eos_token_id"] = ids;
  if (const Value* value = file.find("tokenizer.ggml.bos_token_id"))
    config["bos_token_id"] = value->integer(0, UINT32_MAX);
}

// --- families ---

ConfigJson layer_types(std::int64_t n_layers, auto is_windowed) {
  ConfigJson types = ConfigJson::array();
  for (std::int64_t layer = 0; layer < n_layers; ++layer)
    types.push_back(is_windowed(layer) ? "sliding_attention" : "full_attention");
  return types;
}

// The layers that see through a window, as Hugging Face lists them. A pattern of n is all but each nth.
void add_windows(const GgufFields& from, std::string_view architecture, ConfigJson& config) {
  const std::int64_t size = from.count_or("attention.sliding_window", 0);
  const std::int64_t n_layers = config["num_hidden_layers"].get<std::int64_t>();
  if (size > 0)
    config["sliding_window"] = size;
  else if (architecture == "gemma3")  // whose family would have windows by itself
    config["layer_types"] = layer_types(n_layers, [](std::int64_t) { return false; });
  else if (from.find("attention.sliding_window") != nullptr)
    config["sliding_window"] = nullptr;
  const Value* pattern = from.find("attention.sliding_window_pattern");
  if (size == 0 || pattern == nullptr) return;
  if (!pattern->is_array()) {
    const std::int64_t period = pattern->integer(1, kMostLayers);
    config["layer_types"] =
        layer_types(n_layers, [&](std::int64_t layer) { return (layer + 1) % period != 0; });
    return;
  }
  ConfigJson types = ConfigJson::array();
  pattern->for_each([&](const Value& windowed) {
    types.push_back(windowed.boolean() ? "sliding_attention" : "full_attention");
  });
  config["layer_types"] = types;
}

// Scores are divided by √head_dim, but in the two largest, 27B, by √(hidden size / heads), which no metadata
// say: Gemma 2 27B has 46 layers, Gemma 3 27B has 62.
void add_query_scale(const GgufArchitecture& architecture, ConfigJson& config) {
  if (!architecture.family().scaled_queries) return;
  const std::int64_t largest = architecture.name == "gemma2" ? 46 : 62;
  const bool is_largest = config["num_hidden_layers"] == largest;
  config["query_pre_attn_scalar"] = is_largest ? config["hidden_size"].get<std::int64_t>() /
                                                     config["num_attention_heads"].get<std::int64_t>()
                                               : config["head_dim"].get<std::int64_t>();
}

// Where old files do not say how wide experts are, a tensor of them does.
std::int64_t expert_size(const GgufFields& from, std::string_view key, std::string_view tensor_name) {
  const Tensor* tensor = from.tensor(tensor_name);
  if (from.find(key) != nullptr || tensor == nullptr || tensor->shape.size() < 2) return from.count(key);
  return tensor->shape[tensor->shape.size() - 2];
}

void add_experts(const GgufFields& from, const Family& family, ConfigJson& config) {
  const ExpertsRule& rule = family.experts;
  const auto field = [&](std::string_view name) -> ConfigJson& { return config[std::string(name)]; };
  if (rule.n_field.empty()) {
    if (from.count_or("expert_count", 0) > 0)
      from.require("expert_count")
          .fail(std::to_string(from.count("expert_count")),
                fmt::format("0: {} with experts is not supported", family.model_type));
    return;
  }
  field(rule.n_field) = from.count("expert_count");
  config["num_experts_per_tok"] = from.count("expert_used_count");
  if (rule.size_field != "intermediate_size" || from.find("expert_feed_forward_length") != nullptr)
    field(rule.size_field) = expert_size(from, "expert_feed_forward_length", "blk.0.ffn_gate_exps.weight");
  if (!rule.shared_size_field.empty())
    field(rule.shared_size_field) =
        expert_size(from, "expert_shared_feed_forward_length", "blk.0.ffn_gate_shexp.weight");
  // Which llama.cpp does for the one and not for the other, whatever the model's own configuration says.
  if (!rule.renormalised_field.empty()) field(rule.renormalised_field) = family.model_type == "qwen3_moe";
}

// Biases are where they are stored, whatever a family has by default.
void add_biases(const GgufFields& from, const Family& family, ConfigJson& config) {
  const auto has = [&](std::string_view name) { return from.tensor(name) != nullptr; };
  if (!family.biases.field.empty())
    config[std::string(family.biases.field)] = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
  if (has("blk.0.ffn_up.bias")) config["mlp_bias"] = true;
}

// Numbers that some families have and others take for nothing: what a file says beyond that is refused, as
// leaving it out would give another model.
void add_numbers(const GgufFields& from, const Family& family, ConfigJson& config) {
  struct Number {
    const char *key, *field;
    bool counts;
    double neutral;
  };
  for (const auto& [key, field, counts, neutral] :
       {Number{"attention.scale", "attention_multiplier", family.multipliers, 0},
        Number{"embedding_scale", "embedding_multiplier", family.multipliers, 1},
        Number{"residual_scale", "residual_multiplier", family.multipliers, 1},
        Number{"logit_scale", "logits_scaling", family.multipliers, 1},
        Number{"attn_logit_softcapping", "attn_logit_softcapping", family.softcaps, 0},
        Number{"final_logit_softcapping", "final_logit_softcapping", family.softcaps, 0},
        Number{"attention.temperature_scale", "", family.growing_queries, 0},
        Number{"attention.clamp_kqv", "", false, 0}, Number{"attention.max_alibi_bias", "", false, 0},
        Number{"expert_weights_scale", "", false, 1}, Number{"expert_group_count", "", false, 1},
        Number{"leading_dense_block_count", "", false, 0}, Number{"nextn_predict_layers", "", false, 0}}) {
    const auto number = from.number(key);
    if (!number) continue;
    if (counts && *field != '\0') config[field] = *number;
    if (!counts && *number != neutral && *number != 0)
      from.require(key).fail(fmt::format("{}", *number),
                             fmt::format("{}: in {} it is not supported", neutral, family.model_type));
  }
  if (const Value* causal = from.find("attention.causal"); causal != nullptr && !causal->boolean())
    causal->fail("false", "true: a token sees what came before it");
}

// --- file types ---

// How most of the matrices' values are stored.
std::string_view usual_format(const Container& file) {
  std::map<std::string_view, std::int64_t> n_values;
  for (const auto& [name, tensor] : file.tensors())
    if (tensor->shape.size() > 1) n_values[tensor->format->name] += tensor->n_elements();
  const auto most = std::ranges::max_element(n_values, {}, [](const auto& entry) { return entry.second; });
  return most == n_values.end() ? "F32" : most->first;
}

// general.file_type, as llama.cpp numbers them (llama_ftype).
constexpr std::array<std::string_view, 41> kFileTypes{
    "F32",   "F16",     "Q4_0",   "Q4_1",   "",       "",        "",       "Q8_0",   "Q5_0",
    "Q5_1",  "Q2_K",    "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S",  "Q4_K_M", "Q5_K_S", "Q5_K_M",
    "Q6_K",  "IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",
    "IQ3_M", "IQ2_S",   "IQ2_M",  "IQ4_XS", "IQ1_M",  "BF16",    "",       "",       "",
    "TQ1_0", "TQ2_0",   "MXFP4",  "NVFP4",  "Q1_0"};

std::string file_type(const Container& file) {
  const Value* type = file.find("general.file_type");
  const std::int64_t number = type == nullptr ? -1 : type->integer(0, UINT32_MAX);
  const bool known = number >= 0 && number < std::ssize(kFileTypes) && !kFileTypes[number].empty();
  return std::string(known ? kFileTypes[number] : usual_format(file));
}

}  // namespace

std::string gguf_config(const Container& file) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  const Family& family = architecture.family();
  const GgufFields from(file);
  const std::string_view format = usual_format(file);
  ConfigJson config{{"architectures", {family.architecture}},
                    {"model_type", family.model_type},
                    {"dtype", format == "BF16"  ? "bfloat16"
                              : format == "F16" ? "float16"
                                                : "float32"}};
  add_sizes(from, config);
  config["tie_word_embeddings"] = from.tensor("output.weight") == nullptr;
  if (architecture.name == "phi3") from.require("attention.sliding_window");
  add_windows(from, architecture.name, config);
  add_gguf_rope(from, family, config["head_dim"].get<std::int64_t>(), config);
  add_query_scale(architecture, config);
  add_experts(from, family, config);
  add_biases(from, family, config);
  add_numbers(from, family, config);
  add_eos(file, config);
  config["gguf"] = {{"architecture", architecture.name}, {"file_type", file_type(file)}};
  if (const Value* name = file.find("general.name")) config["gguf"]["name"] = name->string();
  return json_text(config, 2);
}

std::string gguf_quantisation(const Container& file) { return "GGUF " + file_type(file); }

}  // namespace keyscope::capture

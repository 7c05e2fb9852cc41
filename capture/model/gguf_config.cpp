#include "capture/model/gguf_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <numbers>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::capture {

// What converters write: https://github.com/ggml-org/llama.cpp, conversion/ (once convert_hf_to_gguf.py), and
// gguf-py/gguf/constants.py for the names.

const std::vector<GgufArchitecture>& known_gguf_architectures() {
  // Norms of Gemma 2 and 3: the MLP's own has another name where its output is normalised as well.
  static const std::vector<GgufName> kGemmaNames{{"post_attention_norm", "post_attention_layernorm"},
                                                 {"ffn_norm", "pre_feedforward_layernorm"},
                                                 {"post_ffw_norm", "post_feedforward_layernorm"}};
  static const std::vector<GgufArchitecture> kArchitectures{
      {.name = "llama",
       .model_type = "mixtral",
       .hugging_face_class = "MixtralForCausalLM",
       .if_key = "expert_count",
       .names = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                 {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
                 {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
                 {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"}},
       .permuted = true},
      {.name = "llama",
       .model_type = "mistral",
       .hugging_face_class = "MistralForCausalLM",
       .if_key = "attention.sliding_window",
       .permuted = true},
      // Llama, Mistral without a window, SmolLM2, TinyLlama
      {.name = "llama", .model_type = "llama", .hugging_face_class = "LlamaForCausalLM", .permuted = true},
      {.name = "smollm3",
       .model_type = "smollm3",
       .hugging_face_class = "SmolLM3ForCausalLM",
       .permuted = true},
      {.name = "granite",
       .model_type = "granite",
       .hugging_face_class = "GraniteForCausalLM",
       .permuted = true},
      {.name = "qwen2", .model_type = "qwen2", .hugging_face_class = "Qwen2ForCausalLM"},
      {.name = "qwen3", .model_type = "qwen3", .hugging_face_class = "Qwen3ForCausalLM"},
      {.name = "qwen2moe", .model_type = "qwen2_moe", .hugging_face_class = "Qwen2MoeForCausalLM"},
      {.name = "qwen3moe", .model_type = "qwen3_moe", .hugging_face_class = "Qwen3MoeForCausalLM"},
      {.name = "gemma2",
       .model_type = "gemma2",
       .hugging_face_class = "Gemma2ForCausalLM",
       .names = kGemmaNames,
       .norms_plus_one = true},
      {.name = "gemma3",
       .model_type = "gemma3_text",
       .hugging_face_class = "Gemma3ForCausalLM",
       .names = kGemmaNames,
       .norms_plus_one = true},
      {.name = "phi3",
       .model_type = "phi3",
       .hugging_face_class = "Phi3ForCausalLM",
       .names = {{"ffn_up", "mlp.gate_up_proj"}},
       .fused = true},
      {.name = "olmo2",
       .model_type = "olmo2",
       .hugging_face_class = "Olmo2ForCausalLM",
       .names = {{"post_attention_norm", "post_attention_layernorm"},
                 {"post_ffw_norm", "post_feedforward_layernorm"}}},
      {.name = "glm4",
       .model_type = "glm4",
       .hugging_face_class = "Glm4ForCausalLM",
       .names = {{"post_attention_norm", "post_self_attn_layernorm"},
                 {"post_ffw_norm", "post_mlp_layernorm"},
                 {"ffn_up", "mlp.gate_up_proj"}}},
  };
  return kArchitectures;
}

namespace {

using gguf::Container;
using gguf::Tensor;
using gguf::Value;
using ConfigJson = nlohmann::ordered_json;

constexpr std::int64_t kLargest = std::int64_t{1} << 31;

// Metadata of the file's architecture, by the key without its name.
class Fields {
 public:
  explicit Fields(const Container& file)
      : file_(file), prefix_(fmt::format("{}.", file.require("general.architecture").string())) {}

  const Value* find(std::string_view key) const { return file_.find(prefix_ + std::string(key)); }
  const Value& require(std::string_view key) const { return file_.require(prefix_ + std::string(key)); }
  const Tensor* tensor(std::string_view name) const {
    const auto found = file_.tensors().find(name);
    return found == file_.tensors().end() ? nullptr : found->second;
  }
  bool has_tensor(std::string_view name) const { return tensor(name) != nullptr; }

  // Where the layers' are the same, it is one.
  std::int64_t count(std::string_view key) const {
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
  std::int64_t count_or(std::string_view key, std::int64_t otherwise) const {
    return find(key) == nullptr ? otherwise : count(key);
  }
  std::optional<double> number(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    return value->number();
  }

  const Container& file() const { return file_; }

 private:
  const Container& file_;
  std::string prefix_;
};

// Puts numbers into `json` under the names of Hugging Face, those that are there.
void copy_numbers(const Fields& from, ConfigJson& json,
                  std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [key, name] : names)
    if (const auto number = from.number(key)) json[name] = *number;
}

void copy_counts(const Fields& from, ConfigJson& json,
                 std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [key, name] : names)
    if (from.find(key) != nullptr) json[name] = from.count(key);
}

// --- rotary positions ---

std::vector<double> pair_factors(const Fields& from, std::string_view name, std::int64_t n_pairs) {
  const Tensor& tensor = *from.tensor(name);
  if (tensor.format->name != "F32" || tensor.shape != std::vector<std::int64_t>{n_pairs})
    throw FileError(fmt::format("{}: tensor {} is {} [{}], expected F32 [{}], one per rotated pair",
                                tensor.file, name, tensor.format->name, fmt::join(tensor.shape, ", "),
                                n_pairs));
  std::vector<float> values(static_cast<std::size_t>(n_pairs));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return {values.begin(), values.end()};
}

// Llama 3's scaling: pairs that turn more than `high` times in the original context stay as they are, those
// that turn less than `low` times are slowed down by `factor`, between them it is a ramp.
struct Llama3Scaling {
  double factor = 1, low = 1, high = 4, original = 8192;

  double at(double wave_length) const {
    if (wave_length < original / high) return 1;
    if (wave_length > original / low) return factor;
    const double ramp = (original / wave_length - low) / (high - low);
    return 1 / ((1 - ramp) / factor + ramp);
  }

  bool fits(const std::vector<double>& factors, const std::vector<double>& wave_lengths) const {
    for (std::size_t i = 0; i < factors.size(); ++i)
      if (!(std::abs(at(wave_lengths[i]) / factors[i] - 1) < 1e-5)) return false;
    return true;
  }
};

// Which scaling has these factors. Of a file they are all that is left of it, and on the ramp they say what
// it is but for one of its three numbers, on which nothing depends: with c it is that of (c low, c high, c
// original). `low` is 1 in every model.
std::optional<Llama3Scaling> llama3_scaling(const std::vector<double>& factors,
                                            const std::vector<double>& wave_lengths) {
  const double largest = *std::ranges::max_element(factors);
  const Llama3Scaling usual{.factor = largest};
  if (usual.fits(factors, wave_lengths)) return usual;
  // ramp = slope / wave length - low / (high - low), by two of its points
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < factors.size(); ++i)
    if (factors[i] > 1 && factors[i] < largest)
      points.emplace_back(1 / wave_lengths[i], (1 / factors[i] - 1 / largest) / (1 - 1 / largest));
  if (points.size() < 2) return std::nullopt;
  const auto [x0, y0] = points.front();
  const auto [x1, y1] = points.back();
  const double slope = (y1 - y0) / (x1 - x0), below = slope * x0 - y0;
  const double high = 1 + 1 / below;
  const Llama3Scaling exact{largest, 1, high, slope * (high - 1)};
  // Its makers' numbers were round ones.
  const Llama3Scaling rounded{largest, 1, std::round(high * 100) / 100, std::round(exact.original)};
  if (rounded.high > 1 && rounded.fits(factors, wave_lengths)) return rounded;
  return std::nullopt;
}

// Where no scaling of Llama 3 has these factors, LongRoPE with the same ones for every length does.
ConfigJson scaling_of_factors(const std::vector<double>& factors, double theta, std::int64_t context) {
  if (std::ranges::all_of(factors, [](double factor) { return factor == 1; })) return nullptr;
  std::vector<double> wave_lengths;
  const auto n_pairs = static_cast<double>(factors.size());
  for (std::size_t i = 0; i < factors.size(); ++i)
    wave_lengths.push_back(2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / n_pairs));
  if (const auto found = llama3_scaling(factors, wave_lengths))
    return {{"rope_type", "llama3"},
            {"factor", found->factor},
            {"low_freq_factor", found->low},
            {"high_freq_factor", found->high},
            {"original_max_position_embeddings", static_cast<std::int64_t>(found->original)}};
  return {{"rope_type", "longrope"},
          {"short_factor", factors},
          {"long_factor", factors},
          {"attention_factor", 1.0},
          {"original_max_position_embeddings", context}};
}

// LongRoPE of Phi-3. Its attention factor follows from the lengths, unless another one is given.
ConfigJson longrope_scaling(const Fields& from, std::int64_t n_pairs, ConfigJson& config) {
  const std::int64_t original = from.count("rope.scaling.original_context_length");
  config["original_max_position_embeddings"] = original;
  ConfigJson scaling{{"rope_type", "longrope"},
                     {"short_factor", pair_factors(from, "rope_factors_short.weight", n_pairs)},
                     {"long_factor", pair_factors(from, "rope_factors_long.weight", n_pairs)}};
  const double stretch = static_cast<double>(from.count("context_length")) / static_cast<double>(original);
  const double usual =
      stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original)));
  if (const auto given = from.number("rope.scaling.attn_factor"); given && std::abs(*given - usual) > 1e-6)
    scaling["attention_factor"] = *given;
  return scaling;
}

ConfigJson yarn_scaling(const Fields& from) {
  ConfigJson scaling{
      {"rope_type", "yarn"},
      {"factor", from.require("rope.scaling.factor").number()},
      {"original_max_position_embeddings", from.count("rope.scaling.original_context_length")}};
  copy_numbers(from, scaling,
               {{"rope.scaling.yarn_attn_factor", "attention_factor"},
                {"rope.scaling.yarn_beta_fast", "beta_fast"},
                {"rope.scaling.yarn_beta_slow", "beta_slow"}});
  for (const char* key : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_log_multiplier"})
    if (const auto given = from.number(key); given && *given != 1 && *given != 0)
      from.find(key)->fail(fmt::format("{}", *given), "nothing: it is not supported");
  return scaling;
}

void add_rope(const Fields& from, std::int64_t head_dim, ConfigJson& config) {
  if (const auto theta = from.number("rope.freq_base")) config["rope_theta"] = *theta;
  if (const auto theta = from.number("rope.freq_base_swa")) config["rope_local_base_freq"] = *theta;
  const std::int64_t rotated = from.count_or("rope.dimension_count", head_dim);
  if (rotated != head_dim)
    config["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_dim);
  const Value* type = from.find("rope.scaling.type");
  const std::string kind(type == nullptr ? "none" : type->string());
  ConfigJson scaling;
  if (from.has_tensor("rope_freqs.weight")) {
    if (kind != "none") type->fail(shown(kind), "none, as there is a tensor rope_freqs.weight");
    scaling = scaling_of_factors(pair_factors(from, "rope_freqs.weight", rotated / 2),
                                 config.value("rope_theta", 10000.0), from.count("context_length"));
  } else if (kind == "longrope" || from.has_tensor("rope_factors_long.weight")) {
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
      if (!from.has_tensor(name))
        throw FileError(fmt::format("{}: has no tensor {}, which its RoPE needs", from.file().name(), name));
    scaling = longrope_scaling(from, rotated / 2, config);
  } else if (kind == "linear") {
    scaling = {{"rope_type", "linear"}, {"factor", from.require("rope.scaling.factor").number()}};
  } else if (kind == "yarn") {
    scaling = yarn_scaling(from);
  } else if (kind != "none") {
    type->fail(shown(kind), "none, linear, yarn or longrope");
  }
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
}

// --- families ---

// The layers that see through a window, as Hugging Face lists them.
void add_windows(const Fields& from, ConfigJson& config) {
  const Value* size = from.find("attention.sliding_window");
  if (size == nullptr) return;
  config["sliding_window"] =
      size->integer(0, kLargest) == 0 ? ConfigJson() : ConfigJson(size->integer(0, kLargest));
  const Value* pattern = from.find("attention.sliding_window_pattern");
  if (pattern == nullptr) return;
  if (!pattern->is_array()) {
    config["sliding_window_pattern"] = pattern->integer(1, kLargest);
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
void add_gemma(const Fields& from, std::string_view architecture, ConfigJson& config) {
  const std::int64_t largest = architecture == "gemma2" ? 46 : 62;
  const bool is_largest = config["num_hidden_layers"] == largest;
  config["query_pre_attn_scalar"] = is_largest ? config["hidden_size"].get<std::int64_t>() /
                                                     config["num_attention_heads"].get<std::int64_t>()
                                               : config["head_dim"].get<std::int64_t>();
  copy_numbers(from, config,
               {{"attn_logit_softcapping", "attn_logit_softcapping"},
                {"final_logit_softcapping", "final_logit_softcapping"}});
}

void add_experts(const Fields& from, std::string_view model_type, ConfigJson& config) {
  if (from.count_or("expert_count", 0) == 0) return;
  config[model_type == "mixtral" ? "num_local_experts" : "num_experts"] = from.count("expert_count");
  copy_counts(from, config,
              {{"expert_used_count", "num_experts_per_tok"},
               {"expert_feed_forward_length", "moe_intermediate_size"},
               {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}});
  // Which llama.cpp does for the one and not for the other, whatever the model's own configuration says.
  if (model_type != "mixtral") config["norm_topk_prob"] = model_type == "qwen3_moe";
}

void add_granite(const Fields& from, ConfigJson& config) {
  copy_numbers(from, config,
               {{"attention.scale", "attention_multiplier"},
                {"embedding_scale", "embedding_multiplier"},
                {"residual_scale", "residual_multiplier"},
                {"logit_scale", "logits_scaling"}});
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

// How most of the matrices' values are stored.
std::string_view usual_format(const Container& file) {
  std::map<std::string_view, std::int64_t> n_values;
  for (const auto& [name, tensor] : file.tensors())
    if (tensor->shape.size() > 1) n_values[tensor->format->name] += tensor->n_elements();
  const auto most = std::ranges::max_element(n_values, {}, [](const auto& entry) { return entry.second; });
  return most == n_values.end() ? "F32" : most->first;
}

void add_sizes(const Fields& from, ConfigJson& config) {
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
  for (const char* key :
       {"embedding_length", "feed_forward_length", "block_count", "attention.head_count", "context_length"})
    from.require(key);
  const std::int64_t n_heads = from.count("attention.head_count"), width = from.count("embedding_length");
  if (n_heads == 0) from.require("attention.head_count").fail("0", "1 or more");
  if (!config.contains("num_key_value_heads")) config["num_key_value_heads"] = n_heads;
  config["head_dim"] = from.count_or("attention.key_length", width / n_heads);
  if (const Value* value = from.find("attention.value_length");
      value != nullptr && from.count("attention.value_length") != config["head_dim"])
    value->fail(std::to_string(from.count("attention.value_length")),
                fmt::format("{}, as keys have", config["head_dim"].get<std::int64_t>()));
  config["vocab_size"] = embedding->shape.front();
  copy_numbers(from, config, {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}});
}

// --- file types ---

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

const GgufArchitecture& gguf_architecture(const Container& file) {
  const Value& value = file.require("general.architecture");
  const Fields fields(file);
  std::vector<std::string_view> known;
  for (const GgufArchitecture& each : known_gguf_architectures()) {
    if (each.name == value.string() && (each.if_key.empty() || fields.count_or(each.if_key, 0) > 0))
      return each;
    if (each.if_key.empty()) known.push_back(each.name);
  }
  value.fail(shown(value.string()), fmt::format("one of {}", fmt::join(known, ", ")));
}

std::int64_t gguf_count(const Container& file, std::string_view key) { return Fields(file).count(key); }

std::string gguf_config(const Container& file) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  const Fields from(file);
  const std::string_view format = usual_format(file);
  ConfigJson config{{"architectures", {architecture.hugging_face_class}},
                    {"model_type", architecture.model_type},
                    {"dtype", format == "BF16"  ? "bfloat16"
                              : format == "F16" ? "float16"
                                                : "float32"}};
  add_sizes(from, config);
  config["tie_word_embeddings"] = !from.has_tensor("output.weight");
  if (architecture.model_type == "phi3") from.require("attention.sliding_window");
  add_windows(from, config);
  add_rope(from, config["head_dim"].get<std::int64_t>(), config);
  if (architecture.norms_plus_one) add_gemma(from, architecture.name, config);
  if (architecture.name == "granite") add_granite(from, config);
  add_experts(from, architecture.model_type, config);
  if (from.has_tensor("blk.0.attn_q.bias") || from.has_tensor("blk.0.attn_qkv.bias"))
    config["attention_bias"] = true;
  if (from.has_tensor("blk.0.ffn_up.bias")) config["mlp_bias"] = true;
  add_eos(file, config);
  config["gguf"] = {{"architecture", architecture.name}, {"file_type", file_type(file)}};
  if (const Value* name = file.find("general.name")) config["gguf"]["name"] = name->string();
  return json_text(config, 2);
}

std::string gguf_quantisation(const Container& file) { return "GGUF " + file_type(file); }

}  // namespace keyscope::capture

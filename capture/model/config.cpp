#include "capture/model/config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/gguf/gguf.hpp"
#include "capture/model/config_fields.hpp"
#include "capture/model/gguf_config.hpp"
#include "capture/model/model_cache.hpp"

namespace keyscope::capture {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// 0: none. A null means none, nothing at all means the family's default.
std::int64_t read_size(const ConfigFields& fields, const WindowRule& rule) {
  if (rule.layers == WindowedLayers::kNone) return 0;
  if (!rule.flag.empty() && !fields.flag_or(std::string(rule.flag), false)) return 0;
  if (fields.is_null("sliding_window")) return 0;
  return fields.count_or("sliding_window", rule.size, 1, kLargestSize);
}

// Which layers have a window by the family's rule.
std::vector<bool> by_rule(const ConfigFields& fields, const WindowRule& rule, const ModelConfig& config) {
  std::int64_t n = rule.n;
  if (!rule.n_field.empty()) {
    const std::int64_t least = rule.layers == WindowedLayers::kAllButNths ? 1 : 0;
    n = fields.count_or(std::string(rule.n_field), n, least, kLargestSize);
  }
  const auto is_windowed = [&](int layer) {
    switch (rule.layers) {
      case WindowedLayers::kNone:
        return false;
      case WindowedLayers::kAll:
        return true;
      case WindowedLayers::kFromNth:
        return layer >= n;
      case WindowedLayers::kAllButNths:
        return (layer + 1) % n != 0;
      case WindowedLayers::kEvenBelowNth:
        return layer % 2 == 0 && layer < n;
      case WindowedLayers::kUnrotated:
        return !config.rotates(layer);
    }
    return false;
  };
  std::vector<bool> windowed(config.n_layers);
  for (int layer = 0; layer < config.n_layers; ++layer) windowed[layer] = is_windowed(layer);
  return windowed;
}

// By config.json's `layer_types`, which also say which layers attend.
std::vector<bool> by_layer_types(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const nlohmann::json& list = fields.at("layer_types");
  if (!list.is_array() || list.size() != static_cast<std::size_t>(config.n_layers))
    fields.fail("layer_types", shown_value(list),
                fmt::format("a list of {}, one per layer", config.n_layers));
  std::vector<bool> windowed;
  for (const nlohmann::json& type : list) {
    const bool recurs = type == "linear_attention" && family.recurrent != RecurrentLayers::kNone;
    if (type == "mamba" || (type == "linear_attention" && !recurs))
      fields.fail("layer_types", shown_value(type),
                  fmt::format("attention in every layer: {}'s layers without keys are not supported",
                              family.model_type));
    if (!recurs && type != "full_attention" && type != "attention" && type != "sliding_attention")
      fields.fail("layer_types", shown_value(type), "full_attention or sliding_attention in every place");
    windowed.push_back(type == "sliding_attention");
    if (family.recurrent != RecurrentLayers::kNone) config.layer_attends.push_back(!recurs);
  }
  return windowed;
}

// Families that have windows nowhere or everywhere do not look at `layer_types`.
void refuse_contradiction(const ConfigFields& fields, const WindowRule& rule,
                          const std::vector<bool>& windowed, std::int64_t size) {
  const bool everywhere = rule.layers == WindowedLayers::kAll && size > 0;
  if (rule.layers != WindowedLayers::kNone && rule.layers != WindowedLayers::kAll) return;
  if (std::ranges::any_of(windowed, [&](bool has) { return has != everywhere; }))
    fields.fail("layer_types", shown_value(fields.at("layer_types")),
                fmt::format("{} in every place, as in all models of this family",
                            everywhere ? "sliding_attention" : "full_attention"));
}

// 0 in the list is a layer without rotary positions.
std::vector<bool> read_unrotated_list(const ConfigFields& fields, int n_layers) {
  const Json& list = fields.at("no_rope_layers");
  const std::string expected = fmt::format("a list of 0 and 1, one for each of {} layers", n_layers);
  if (!list.is_array() || list.size() < static_cast<std::size_t>(n_layers))
    fields.fail("no_rope_layers", shown_value(list), expected);
  std::vector<bool> rotates;
  for (const Json& entry : list) {
    if (entry != 0 && entry != 1) fields.fail("no_rope_layers", shown_value(list), expected);
    rotates.push_back(entry == 1);
  }
  rotates.resize(n_layers);
  return rotates;
}

void read_rotated_layers(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  if (family.unrotated == UnrotatedLayers::kAllUnlessRope) {
    const std::string type = fields.text_or("position_embedding_type", "none");
    if (type != "rope" && type != "none" && type != "nope")
      fields.fail("position_embedding_type", shown(type), "\"rope\", \"nope\" or null");
    if (type != "rope") config.layer_rotates.assign(config.n_layers, false);
  }
  if (family.unrotated != UnrotatedLayers::kListed) return;
  if (fields.has("no_rope_layers")) {
    config.layer_rotates = read_unrotated_list(fields, config.n_layers);
    return;
  }
  const std::int64_t interval = fields.count_or("no_rope_layer_interval", 4, 1, kLargestSize);
  for (int layer = 0; layer < config.n_layers; ++layer)
    config.layer_rotates.push_back((layer + 1) % interval != 0);
}

// Reads which layers see through a sliding window, and how wide it is, into a configuration whose shape has
// been read: by `layer_types` where it is there, else by the family's rule.
//   throws FileError naming the field
void read_windows(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const WindowRule& rule = family.window;
  const std::int64_t size = read_size(fields, rule);
  const bool listed = fields.has("layer_types");
  std::vector<bool> windowed =
      listed ? by_layer_types(fields, family, config) : by_rule(fields, rule, config);
  if (rule.last_sees_all) windowed.back() = false;
  if (listed) refuse_contradiction(fields, rule, windowed, size);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  // Without a size the rule speaks of no layer, unless its windows are not for choice.
  if (size == 0 && !listed && rule.layers != WindowedLayers::kAllButNths) return;
  if (size == 0)
    fields.fail("sliding_window", "nothing or switched off",
                "a number, as there are layers with sliding_attention");
  for (const bool has : windowed) config.layer_windows.push_back(has ? size : 0);
}

// What of attention's heads the families share that cache every head's own keys.
void read_heads(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const bool as_heads = family.default_kv_heads == 0 || fields.is_null("num_key_value_heads");
  const std::int64_t kv_heads = as_heads ? config.n_heads : family.default_kv_heads;
  config.n_kv_heads = static_cast<int>(fields.count_or("num_key_value_heads", kv_heads, 1, kMostHeads));
  if (config.n_heads % config.n_kv_heads != 0)
    fields.fail("num_key_value_heads", std::to_string(config.n_kv_heads),
                fmt::format("a divisor of num_attention_heads, which is {}", config.n_heads));
  const bool divided = !fields.has("head_dim") && family.default_head_dim == 0;
  if (divided && config.hidden_size % config.n_heads != 0)
    fields.fail("hidden_size", std::to_string(config.hidden_size),
                fmt::format("a multiple of num_attention_heads, which is {}, or a head_dim", config.n_heads));
  const std::int64_t head_dim =
      family.default_head_dim > 0 ? family.default_head_dim : config.hidden_size / config.n_heads;
  config.head_dim = static_cast<int>(fields.count_or("head_dim", head_dim, 1, kMostHeads));
  if (config.head_dim % 2 != 0)
    fields.fail("head_dim", std::to_string(config.head_dim),
                "an even number, as rotary positions need pairs");
}

// The defaults are those of DeepSeek V2 and V3.
void read_latent(const ConfigFields& fields, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  const auto count = [&](const char* name, std::int64_t otherwise) {
    return static_cast<int>(fields.count_or(name, otherwise, 1, kMostHeads / 2));
  };
  latent.rank = count("kv_lora_rank", 512);
  if (!fields.is_null("q_lora_rank"))
    latent.query_rank = fields.count_or("q_lora_rank", 1536, 1, kLargestSize);
  latent.rotated_dim = count("qk_rope_head_dim", 64);
  latent.plain_dim = count("qk_nope_head_dim", 128);
  latent.value_dim = count("v_head_dim", 128);
  if (latent.rotated_dim % 2 != 0)
    fields.fail("qk_rope_head_dim", std::to_string(latent.rotated_dim),
                "an even number, as rotary positions need pairs");
  if (latent.value_dim > latent.plain_dim + latent.rotated_dim)
    fields.fail("v_head_dim", std::to_string(latent.value_dim),
                fmt::format("at most qk_nope_head_dim + qk_rope_head_dim, which is {}",
                            latent.plain_dim + latent.rotated_dim));
  config.attention_scale = 1 / std::sqrt(static_cast<double>(latent.plain_dim + latent.rotated_dim));
  config.n_kv_heads = 1;
  config.head_dim = static_cast<int>(latent.rank) + latent.rotated_dim;
}

void read_shape(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  config.n_layers = static_cast<int>(fields.count("num_hidden_layers", 1, kMostLayers));
  config.n_heads = static_cast<int>(fields.count("num_attention_heads", 1, kMostHeads));
  config.hidden_size = fields.count("hidden_size", 1, kLargestSize);
  const bool only_experts = !family.experts.n_field.empty() && family.experts.layers == ExpertLayers::kAll &&
                            family.experts.beside_dense_flag.empty();
  if (!only_experts || fields.has("intermediate_size"))
    config.intermediate_size = fields.count("intermediate_size", 1, kLargestSize);
  config.vocab_size = fields.count("vocab_size", 1, kLargestSize);
  config.context_length = fields.count_or("max_position_embeddings", family.default_context, 1, kLargestSize);
  config.n_further_layers = static_cast<int>(
      fields.count_or("num_nextn_predict_layers", family.default_further_layers, 0, kMostLayers));
  if (family.latent.has)
    read_latent(fields, config);
  else
    read_heads(fields, family, config);
}

// A number where null means none, and nothing at all the family's default.
double read_softcap(const ConfigFields& fields, const char* name, double otherwise) {
  return fields.is_null(name) ? 0 : fields.positive_or(name, otherwise);
}

void read_biases(const ConfigFields& fields, const AttentionBiases& biases, ModelConfig& config) {
  config.qkv_bias =
      biases.field.empty() ? biases.by_default : fields.flag_or(std::string(biases.field), biases.by_default);
  config.output_bias = config.qkv_bias && biases.of_output;
  config.mlp_bias = fields.flag_or("mlp_bias", false);
}

// Granite's; the defaults of all are 1.
void read_multipliers(const ConfigFields& fields, ModelConfig& config) {
  config.embedding_scale = fields.positive_or("embedding_multiplier", 1);
  config.residual_scale = fields.positive_or("residual_multiplier", 1);
  config.attention_scale = fields.positive_or("attention_multiplier", 1);
  config.logit_divisor = fields.positive_or("logits_scaling", 1);
}

// Layers that do not attend, after `layer_types`, if there are any.
void read_recurrent(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  if (family.recurrent == RecurrentLayers::kNone) return;
  if (config.layer_attends.empty()) {
    const std::int64_t interval = fields.count_or("full_attention_interval", 4, 1, kLargestSize);
    for (int layer = 0; layer < config.n_layers; ++layer)
      config.layer_attends.push_back((layer + 1) % interval == 0);
  }
  RecurrentConfig& recurrent = config.recurrent;
  const auto count = [&](const char* name, std::int64_t otherwise, std::int64_t most) {
    return static_cast<int>(fields.count_or(name, otherwise, 1, most));
  };
  recurrent.n_key_heads = count("linear_num_key_heads", 16, kMostHeads);
  recurrent.n_value_heads = count("linear_num_value_heads", 32, kMostHeads);
  recurrent.key_dim = count("linear_key_head_dim", 128, kMostHeads);
  recurrent.value_dim = count("linear_value_head_dim", 128, kMostHeads);
  recurrent.kernel = count("linear_conv_kernel_dim", 4, 1024);
  if (recurrent.n_value_heads % recurrent.n_key_heads != 0)
    fields.fail("linear_num_value_heads", std::to_string(recurrent.n_value_heads),
                fmt::format("a multiple of linear_num_key_heads, which is {}", recurrent.n_key_heads));
  if (std::ranges::find(config.layer_attends, true) == config.layer_attends.end())
    fields.fail("layer_types", "linear_attention in every layer",
                "full_attention in one at least: there would be no keys to look at");
}

void read_layers(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  config.rms_norm_eps = fields.positive_or("rms_norm_eps", family.default_epsilon);
  config.tie_word_embeddings = fields.flag_or("tie_word_embeddings", family.default_tied);
  read_biases(fields, family.biases, config);
  config.unit_offset_norms = family.unit_offset_norms;
  config.attention_sinks = family.sinks;
  config.attention_gate = family.gated_attention;
  read_recurrent(fields, family, config);
  if (family.fused_qkv && config.qkv_bias)
    fields.fail(std::string(family.biases.field), "true",
                fmt::format("false: the projections of {} have none", family.model_type));
  if (!family.mlp.gate_up.empty() && config.mlp_bias)
    fields.fail("mlp_bias", "true", fmt::format("false: the projections of {} have none", family.model_type));
  config.rounded_embedding_scale = family.scaled_embeddings;
  if (family.scaled_embeddings) config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  if (family.multipliers) read_multipliers(fields, config);
  if (family.scaled_queries)
    config.attention_scale =
        1 / std::sqrt(fields.positive_or("query_pre_attn_scalar", family.default_query_scalar));
  if (family.unscaled_queries) config.attention_scale = 1;
  if (family.softcaps) {
    // Configurations of later Gemmas may have it, too; their models never look at it.
    if (family.default_attention_softcap > 0)
      config.attention_softcap =
          read_softcap(fields, "attn_logit_softcapping", family.default_attention_softcap);
    config.logit_softcap = read_softcap(fields, "final_logit_softcapping", family.default_logit_softcap);
  }
  read_experts(fields, family, config);
  const std::string field(family.activation_field);
  const std::string activation = fields.text_or(field, std::string(family.default_activation));
  if (activation != "silu" && activation != "gelu_pytorch_tanh")
    fields.fail(field, shown(activation), "\"silu\" or \"gelu_pytorch_tanh\"");
  config.activation = activation == "silu" ? HiddenActivation::kSilu : HiddenActivation::kGeluTanh;
}

// A larger model's configuration has that of its decoder in `text_config`, with what both share outside.
Json text_part(const Json& json) {
  const auto is_known = [](const Json& part) {
    return part.contains("model_type") && part["model_type"].is_string() &&
           find_family(part["model_type"].get<std::string>()) != nullptr;
  };
  if (is_known(json) || !json.contains("text_config") || !json["text_config"].is_object() ||
      !is_known(json["text_config"]))
    return json;
  Json part = json["text_config"];
  part.erase("architectures");
  for (const char* name : {"tie_word_embeddings", "eos_token_id", "dtype", "torch_dtype",
                           "quantization_config", "compression_config"})
    if (json.contains(name) && !json[name].is_null()) part[name] = json[name];
  return part;
}

std::vector<std::int32_t> read_eos(const ConfigFields& fields) {
  std::vector<std::int32_t> ids;
  if (!fields.has("eos_token_id")) return ids;
  const Json& value = fields.at("eos_token_id");
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& id : list) {
    const bool sound =
        id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() <= INT32_MAX;
    if (!sound) fields.fail("eos_token_id", shown_value(value), "a token id or a list of them");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

// Where `use_bidirectional_attention` is "vision", tokens of images alone see what comes after them.
void refuse_bidirectional(const ConfigFields& fields) {
  if (!fields.flag_or("is_causal", true))
    fields.fail("is_causal", "false", "true: a token sees what came before it");
  const char* name = "use_bidirectional_attention";
  if (!fields.has(name) || fields.at(name) == false || fields.at(name) == "vision") return;
  fields.fail(name, shown_value(fields.at(name)), "false: a token sees what came before it");
}

const Family& read_architecture(const ConfigFields& fields, ModelConfig& config) {
  const Family* family = find_family(config.model_type);
  if (family == nullptr) {
    if (const std::string_view why = why_refused(config.model_type); !why.empty())
      fields.fail("model_type", shown(config.model_type),
                  fmt::format("a family that is supported; this one is not, as {}", why));
    std::vector<std::string_view> known;
    for (const Family& each : known_families()) known.push_back(each.model_type);
    fields.fail("model_type", config.model_type.empty() ? "nothing" : shown(config.model_type),
                fmt::format("one of {}, the families that are supported", fmt::join(known, ", ")));
  }
  if (fields.has("architectures")) {
    const Json& list = fields.at("architectures");
    const auto lists = [&](std::string_view name) {
      return list.is_array() && std::ranges::find(list, Json(name)) != list.end();
    };
    config.headless = !lists(family->architecture) && lists(family->base_class);
    if (!config.headless && !lists(family->architecture))
      fields.fail("architectures", shown_value(list),
                  fmt::format("a list with \"{}\" or \"{}\"", family->architecture, family->base_class));
  }
  refuse_bidirectional(fields);
  return *family;
}

// Newer files say `dtype`, older ones `torch_dtype`.
std::string read_dtype(const ConfigFields& fields) {
  std::string found;
  for (const char* name : {"dtype", "torch_dtype"}) {
    std::string dtype = fields.text_or(name, "");
    if (dtype.empty()) continue;
    if (dtype.starts_with("torch.")) dtype.erase(0, 6);  // as some older files spell it
    if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16" && dtype != "auto")
      fields.fail(name, shown(dtype), "float32, bfloat16, float16 or auto");
    if (!found.empty() && found != dtype) fields.fail(name, shown(dtype), found + ", as dtype says");
    found = dtype;
  }
  return found;
}

}  // namespace

ModelConfig parse_config(std::string raw_json, const std::string& where) {
  ModelConfig config;
  config.raw_json = std::move(raw_json);
  const Json json = text_part(parse_json_object(config.raw_json, where));
  const ConfigFields fields(json, where);
  config.model_type = fields.text_or("model_type", "");
  config.dtype = read_dtype(fields);
  const Family& family = read_architecture(fields, config);
  read_shape(fields, family, config);
  read_rotated_layers(fields, family, config);
  read_windows(fields, family, config);
  read_layer_shapes(fields, family, config);
  read_rope(fields, family, config);
  read_layers(fields, family, config);
  config.eos_token_ids = read_eos(fields);
  config.quantisation = read_quantisation(json, where);
  return config;
}

void expand_keys(ModelConfig& config) {
  LatentConfig& latent = config.latent;
  if (latent.rank == 0)
    throw UsageError(
        fmt::format("--expand-keys: {} has no latent attention: its keys are every head's own already",
                    config.model_type));
  latent.expanded = true;
  config.n_kv_heads = config.n_heads;
  config.head_dim = latent.rotated_dim + latent.plain_dim;
}

ModelConfig read_config(const fs::path& folder) {
  if (gguf::is_gguf(folder))
    return parse_config(gguf_config(gguf::Container(folder)), folder.string() + ", read as a config.json");
  const fs::path path = folder / "config.json";
  std::error_code unused;
  if (!fs::exists(path, unused))
    throw FileError(fmt::format("{}: holds no config.json; expected a model folder in Hugging Face layout{}",
                                folder.string(), fetch_advice(folder)));
  ModelConfig config = parse_config(read_small_file(path), path.string());
  if (config.quantisation.method == QuantMethod::kNone)
    config.quantisation = read_separate_quantisation(folder);
  const fs::path generation = folder / "generation_config.json";
  std::error_code ignored;
  if (fs::exists(generation, ignored)) {
    const Json generation_json = parse_json_object(read_small_file(generation), generation.string());
    const auto ids = read_eos(ConfigFields(generation_json, generation.string()));
    if (!ids.empty()) config.eos_token_ids = ids;
  }
  return config;
}

std::int64_t ModelConfig::cached_elements(int layer) const {
  if (!attends(layer) || borrows(layer)) return 0;
  const std::int64_t keys = std::int64_t{heads(layer).n_kv_heads} * heads(layer).head_dim;
  return latent.rank > 0 && !latent.expanded ? keys : 2 * keys;
}

AttentionRules attention_rules(const ModelConfig& config, int layer) {
  const double usual_scale = 1 / std::sqrt(static_cast<double>(config.heads(layer).head_dim));
  return {.scale = config.attention_scale > 0 ? config.attention_scale : usual_scale,
          .softcap = config.attention_softcap,
          .window = config.window(layer)};
}

}  // namespace keyscope::capture

#include "capture/model/config.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/model/attention_windows.hpp"
#include "capture/model/config_fields.hpp"
#include "capture/model/family.hpp"
#include "capture/model/rope_config.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::capture {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void read_shape(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  config.n_layers = static_cast<int>(fields.count("num_hidden_layers", 1, kMostLayers));
  config.n_heads = static_cast<int>(fields.count("num_attention_heads", 1, kMostHeads));
  const bool as_heads = family.default_kv_heads == 0 || fields.is_null("num_key_value_heads");
  const std::int64_t kv_heads = as_heads ? config.n_heads : family.default_kv_heads;
  config.n_kv_heads = static_cast<int>(fields.count_or("num_key_value_heads", kv_heads, 1, kMostHeads));
  config.hidden_size = fields.count("hidden_size", 1, kLargestSize);
  config.intermediate_size = fields.count("intermediate_size", 1, kLargestSize);
  config.vocab_size = fields.count("vocab_size", 1, kLargestSize);
  config.context_length = fields.count_or("max_position_embeddings", family.default_context, 1, kLargestSize);
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

// A number where null means none, and nothing at all the family's default.
double read_softcap(const ConfigFields& fields, const char* name, double otherwise) {
  return fields.is_null(name) ? 0 : fields.positive_or(name, otherwise);
}

void read_layers(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  config.rms_norm_eps = fields.positive_or("rms_norm_eps", family.default_epsilon);
  config.tie_word_embeddings = fields.flag_or("tie_word_embeddings", family.default_tied);
  config.output_bias = !family.qkv_bias && fields.flag_or("attention_bias", false);
  config.qkv_bias = family.qkv_bias || config.output_bias;
  config.mlp_bias = fields.flag_or("mlp_bias", false);
  config.qk_norm = family.qk_norm;
  config.unit_offset_norms = family.unit_offset_norms;
  config.post_norms = family.post_norms;
  config.fused_projections = family.fused_projections;
  if (config.fused_projections && (config.qkv_bias || config.mlp_bias))
    fields.fail(config.qkv_bias ? "attention_bias" : "mlp_bias", "true",
                fmt::format("false: the projections of {} have none", family.model_type));
  if (family.scaled_embeddings) config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  if (family.scaled_queries)
    config.attention_scale =
        1 / std::sqrt(fields.positive_or("query_pre_attn_scalar", family.default_query_scalar));
  if (family.softcaps) {
    config.attention_softcap =
        read_softcap(fields, "attn_logit_softcapping", family.default_attention_softcap);
    config.logit_softcap = read_softcap(fields, "final_logit_softcapping", family.default_logit_softcap);
  }
  const std::string field(family.activation_field);
  const std::string activation = fields.text_or(field, std::string(family.default_activation));
  if (activation != "silu" && activation != "gelu_pytorch_tanh")
    fields.fail(field, shown(activation), "\"silu\" or \"gelu_pytorch_tanh\"");
  config.activation = activation == "silu" ? HiddenActivation::kSilu : HiddenActivation::kGeluTanh;
}

std::vector<std::int32_t> read_eos(const ConfigFields& fields) {
  std::vector<std::int32_t> ids;
  if (!fields.has("eos_token_id")) return ids;
  const Json& value = fields.at("eos_token_id");
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& id : list) {
    const bool sound =
        id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() <= INT32_MAX;
    if (!sound) fields.fail("eos_token_id", value.dump(), "a token id or a list of them");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

const Family& check_architecture(const ConfigFields& fields, const ModelConfig& config) {
  const Family* family = find_family(config.model_type);
  if (family == nullptr) {
    std::vector<std::string_view> known;
    for (const Family& each : known_families()) known.push_back(each.model_type);
    fields.fail("model_type", config.model_type.empty() ? "nothing" : shown(config.model_type),
                fmt::format("one of {}, the families that are supported", fmt::join(known, ", ")));
  }
  if (fields.has("architectures")) {
    const Json& list = fields.at("architectures");
    if (!list.is_array() ||
        std::find(list.begin(), list.end(), std::string(family->architecture)) == list.end())
      fields.fail("architectures", list.dump(), fmt::format("a list with \"{}\"", family->architecture));
  }
  if (fields.has("quantization_config"))
    fields.fail("quantization_config", fields.at("quantization_config").dump(),
                "none: weights in full floats");
  if (fields.flag_or("use_bidirectional_attention", false))
    fields.fail("use_bidirectional_attention", "true", "false: a token sees what came before it");
  return *family;
}

// Newer files say `dtype`, older ones `torch_dtype`.
std::string read_dtype(const ConfigFields& fields) {
  std::string found;
  for (const char* name : {"dtype", "torch_dtype"}) {
    std::string dtype = fields.text_or(name, "");
    if (dtype.empty()) continue;
    if (dtype.starts_with("torch.")) dtype.erase(0, 6);  // as some older files spell it
    if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16")
      fields.fail(name, shown(dtype), "float32, bfloat16 or float16");
    if (!found.empty() && found != dtype) fields.fail(name, shown(dtype), found + ", as dtype says");
    found = dtype;
  }
  return found;
}

}  // namespace

ModelConfig parse_config(std::string raw_json, const std::string& where) {
  ModelConfig config;
  config.raw_json = std::move(raw_json);
  const Json json = parse_json_object(config.raw_json, where);
  const ConfigFields fields(json, where);
  config.model_type = fields.text_or("model_type", "");
  config.dtype = read_dtype(fields);
  const Family& family = check_architecture(fields, config);
  read_shape(fields, family, config);
  read_rope(fields, family, config);
  read_windows(fields, family, config);
  read_layers(fields, family, config);
  config.eos_token_ids = read_eos(fields);
  return config;
}

ModelConfig read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code unused;
  if (!fs::exists(path, unused))
    throw FileError(fmt::format("{}: holds no config.json; expected a model folder in Hugging Face layout",
                                folder.string()));
  ModelConfig config = parse_config(read_small_file(path), path.string());
  const fs::path generation = folder / "generation_config.json";
  std::error_code ignored;
  if (fs::exists(generation, ignored)) {
    const Json generation_json = parse_json_object(read_small_file(generation), generation.string());
    const auto ids = read_eos(ConfigFields(generation_json, generation.string()));
    if (!ids.empty()) config.eos_token_ids = ids;
  }
  return config;
}

}  // namespace keyscope::capture

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
#include "capture/model/family.hpp"
#include "capture/model/gguf_config.hpp"
#include "capture/model/model_cache.hpp"

namespace keyscope::capture {

namespace {

// Generous bounds, far above every known model: what exceeds them is a damaged file.
inline constexpr std::int64_t kMostLayers = 4096;
inline constexpr std::int64_t kMostHeads = 65536;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

// The fields of one JSON object, with the place that every complaint names. A null counts as not there.
// Everything throws FileError naming the field, what was found and what was expected.
class ConfigFields {
 public:
  // json must outlive the fields.
  ConfigFields(const nlohmann::json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  bool has(const std::string& name) const { return json_->contains(name) && !json_->at(name).is_null(); }
  bool is_null(const std::string& name) const { return json_->contains(name) && json_->at(name).is_null(); }
  const nlohmann::json& at(const std::string& name) const { return json_->at(name); }

  std::int64_t count(const std::string& name, std::int64_t least, std::int64_t most) const;
  std::int64_t count_or(const std::string& name, std::int64_t otherwise, std::int64_t least,
                        std::int64_t most) const;
  double positive(const std::string& name) const;
  double positive_or(const std::string& name, double otherwise) const;
  bool flag_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  const nlohmann::json& json() const { return *json_; }

  // The object in field `name`, which must be there.
  ConfigFields inside(const std::string& name) const;

  const std::string& where() const { return where_; }
  [[noreturn]] void fail(const std::string& name, const std::string& found,
                         const std::string& expected) const;

 private:
  const nlohmann::json* json_;
  std::string where_;
};

std::int64_t ConfigFields::count(const std::string& name, std::int64_t least, std::int64_t most) const {
  if (!has(name)) fail(name, "nothing", "an integer");
  const nlohmann::json& value = at(name);
  if (!value.is_number_integer()) fail(name, shown_value(value), "an integer");
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  const std::int64_t n = too_large ? INT64_MAX : value.get<std::int64_t>();
  if (n < least || n > most) fail(name, shown_value(value), fmt::format("{} to {}", least, most));
  return n;
}

std::int64_t ConfigFields::count_or(const std::string& name, std::int64_t otherwise, std::int64_t least,
                                    std::int64_t most) const {
  return has(name) ? count(name, least, most) : otherwise;
}

double ConfigFields::positive(const std::string& name) const {
  if (!has(name)) fail(name, "nothing", "a positive number");
  const nlohmann::json& value = at(name);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
    fail(name, shown_value(value), "a positive number");
  return value.get<double>();
}

double ConfigFields::positive_or(const std::string& name, double otherwise) const {
  return has(name) ? positive(name) : otherwise;
}

bool ConfigFields::flag_or(const std::string& name, bool otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_boolean()) fail(name, shown_value(at(name)), "true or false");
  return at(name).get<bool>();
}

std::string ConfigFields::text_or(const std::string& name, const std::string& otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_string()) fail(name, shown_value(at(name)), "a string");
  return at(name).get<std::string>();
}

ConfigFields ConfigFields::inside(const std::string& name) const {
  if (!has(name)) fail(name, "nothing", "an object");
  if (!at(name).is_object()) fail(name, shown_value(at(name)), "an object or null");
  return {at(name), where_ + ": " + name};
}

void ConfigFields::fail(const std::string& name, const std::string& found,
                        const std::string& expected) const {
  throw FileError(fmt::format("{}: {} is {}, expected {}", where_, name, found, expected));
}

// 0: none. A null means none, nothing at all means the family's default.
std::int64_t read_size(const ConfigFields& fields, const WindowRule& rule) {
  if (rule.layers == WindowedLayers::kNone) return 0;
  if (!rule.flag.empty() && !fields.flag_or(std::string(rule.flag), false)) return 0;
  if (fields.is_null("sliding_window")) return 0;
  return fields.count_or("sliding_window", rule.size, 1, kLargestSize);
}

// Which layers have a window by the family's rule.
std::vector<bool> by_rule(const ConfigFields& fields, const WindowRule& rule, int n_layers) {
  std::int64_t n = rule.n;
  if (!rule.n_field.empty()) {
    const std::int64_t least = rule.layers == WindowedLayers::kAllButNths ? 1 : 0;
    n = fields.count_or(std::string(rule.n_field), n, least, kLargestSize);
  }
  std::vector<bool> windowed(n_layers, rule.layers == WindowedLayers::kAll);
  for (int layer = 0; layer < n_layers; ++layer)
    if ((rule.layers == WindowedLayers::kFromNth && layer >= n) ||
        (rule.layers == WindowedLayers::kAllButNths && (layer + 1) % n != 0))
      windowed[layer] = true;
  return windowed;
}

std::vector<bool> by_layer_types(const ConfigFields& fields, int n_layers) {
  const nlohmann::json& list = fields.at("layer_types");
  if (!list.is_array() || list.size() != static_cast<std::size_t>(n_layers))
    fields.fail("layer_types", shown_value(list), fmt::format("a list of {}, one per layer", n_layers));
  std::vector<bool> windowed;
  for (const nlohmann::json& type : list) {
    if (type != "full_attention" && type != "sliding_attention")
      fields.fail("layer_types", shown_value(type), "full_attention or sliding_attention in every place");
    windowed.push_back(type == "sliding_attention");
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

// Reads which layers see through a sliding window, and how wide it is, into a configuration whose shape has
// been read: by `layer_types` where it is there, else by the family's rule.
//   throws FileError naming the field
void read_windows(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const WindowRule& rule = family.window;
  const std::int64_t size = read_size(fields, rule);
  const bool listed = fields.has("layer_types");
  const std::vector<bool> windowed =
      listed ? by_layer_types(fields, config.n_layers) : by_rule(fields, rule, config.n_layers);
  if (listed) refuse_contradiction(fields, rule, windowed, size);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  // Without a size the rule speaks of no layer, unless its windows are not for choice.
  if (size == 0 && !listed && rule.layers != WindowedLayers::kAllButNths) return;
  if (size == 0)
    fields.fail("sliding_window", "nothing or switched off",
                "a number, as there are layers with sliding_attention");
  for (const bool has : windowed) config.layer_windows.push_back(has ? size : 0);
}

using Kind = RopeScaling::Kind;

// Bounds within which a factor and its inverse are float32 numbers that do something.
constexpr double kLeastFactor = 1e-6, kMostFactor = 1e6;
constexpr double kMostTheta = 1e30;

void check_factor(const ConfigFields& fields, const std::string& name, double factor) {
  if (factor < kLeastFactor || factor > kMostFactor)
    fields.fail(name, fmt::format("{}", factor), fmt::format("{} to {}", kLeastFactor, kMostFactor));
}

// What stretches depends on what config.json says outside of the scaling.
struct Surroundings {
  const ConfigFields& fields;
  const Family& family;
  const ModelConfig& config;
};

// In Transformers, what stands outside has priority.
double read_original_context(const ConfigFields& inner, const Surroundings& around) {
  const char* name = "original_max_position_embeddings";
  if (around.fields.has(name)) return around.fields.positive(name);
  if (around.family.default_original_context > 0)
    return static_cast<double>(around.family.default_original_context);
  return inner.positive_or(name, static_cast<double>(around.config.context_length));
}

// As Transformers reads it; `mscale` and `mscale_all_dim` belong to families that are not supported.
void read_yarn(const ConfigFields& fields, RopeScaling& scaling) {
  for (const char* name : {"mscale", "mscale_all_dim"})
    if (fields.has(name)) fields.fail(name, shown_value(fields.at(name)), "nothing: it is not supported");
  scaling.beta_fast = fields.positive_or("beta_fast", 32);
  scaling.beta_slow = fields.positive_or("beta_slow", 1);
  if (scaling.beta_fast < scaling.beta_slow)
    fields.fail("beta_fast", fmt::format("{}", scaling.beta_fast),
                fmt::format("at least beta_slow, which is {}", scaling.beta_slow));
  scaling.truncate = fields.flag_or("truncate", true);
  const double usual = scaling.factor <= 1 ? 1 : 0.1 * std::log(scaling.factor) + 1;
  scaling.attention_factor = fields.positive_or("attention_factor", usual);
}

void read_llama3(const ConfigFields& fields, RopeScaling& scaling) {
  scaling.low_freq_factor = fields.positive("low_freq_factor");
  scaling.high_freq_factor = fields.positive("high_freq_factor");
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    fields.fail("high_freq_factor", fmt::format("{}", scaling.high_freq_factor),
                fmt::format("more than low_freq_factor, which is {}", scaling.low_freq_factor));
}

std::vector<double> read_pair_factors(const ConfigFields& fields, const char* name, int n_pairs) {
  const std::string expected = fmt::format("a list of {} positive numbers, one per rotated pair", n_pairs);
  if (!fields.has(name)) fields.fail(name, "nothing", expected);
  const nlohmann::json& list = fields.at(name);
  if (!list.is_array()) fields.fail(name, shown_value(list), expected);
  if (list.size() != static_cast<std::size_t>(n_pairs))
    fields.fail(name, fmt::format("a list of {}", list.size()), expected);
  std::vector<double> factors;
  for (const nlohmann::json& factor : list) {
    if (!factor.is_number()) fields.fail(name, shown_value(list), expected);
    check_factor(fields, std::string("a number of ") + name, factor.get<double>());
    factors.push_back(factor.get<double>());
  }
  return factors;
}

// LongRoPE (arXiv 2402.13753) as Phi-3 has it. Its attention factor follows from how far the context is
// stretched.
void read_longrope(const ConfigFields& fields, const ModelConfig& config, RopeScaling& scaling) {
  scaling.short_factors = read_pair_factors(fields, "short_factor", config.head_dim / 2);
  scaling.long_factors = read_pair_factors(fields, "long_factor", config.head_dim / 2);
  if (scaling.original_context <= 1)
    fields.fail("original_max_position_embeddings", fmt::format("{}", scaling.original_context),
                "more than 1");
  scaling.factor =
      fields.positive_or("factor", static_cast<double>(config.context_length) / scaling.original_context);
  const double usual =
      scaling.factor <= 1 ? 1 : std::sqrt(1 + std::log(scaling.factor) / std::log(scaling.original_context));
  scaling.attention_factor = fields.positive_or("attention_factor", usual);
}

Kind read_kind(const ConfigFields& fields, const Family& family) {
  const bool named = fields.has("rope_type") || fields.has("type");
  if (!named && fields.has("factor"))
    fields.fail("rope_type", "nothing", "the kind of scaling by the factor");
  const std::string name = fields.text_or("rope_type", fields.text_or("type", "default"));
  if (name == "default") return Kind::kNone;
  std::vector<std::string_view> known{"default"};
  for (const RopeName& each : family.rope_names) {
    if (name == each.name) return each.kind;
    known.push_back(each.name);
  }
  fields.fail("rope_type", shown(name), fmt::format("one of {}", fmt::join(known, ", ")));
}

RopeScaling read_scaling(const ConfigFields& fields, const Surroundings& around) {
  RopeScaling scaling;
  scaling.kind = read_kind(fields, around.family);
  if (scaling.kind == Kind::kNone) return scaling;
  if (scaling.kind != Kind::kLongRope) {
    scaling.factor = fields.positive("factor");
    check_factor(fields, "factor", scaling.factor);
  }
  if (scaling.kind == Kind::kLinear) return scaling;
  scaling.original_context = read_original_context(fields, around);
  switch (scaling.kind) {
    case Kind::kDynamic:  // by the context itself, wherever it was trained
      scaling.original_context = static_cast<double>(around.config.context_length);
      if (around.config.head_dim <= 2)
        around.fields.fail("head_dim", std::to_string(around.config.head_dim),
                           "more than 2: RoPE is dynamic");
      break;
    case Kind::kLlama3:
      read_llama3(fields, scaling);
      break;
    case Kind::kYarn:
      read_yarn(fields, scaling);
      break;
    default:
      read_longrope(fields, around.config, scaling);
  }
  return scaling;
}

void refuse_partial_rotary(const ConfigFields& fields) {
  const double part = fields.positive_or("partial_rotary_factor", 1);
  if (part != 1) fields.fail("partial_rotary_factor", fmt::format("{}", part), "1: every coordinate rotates");
}

// A theta inside `rope_parameters` must be that outside, if there is one.
double read_inner_theta(const ConfigFields& inner, const ConfigFields& outer, const char* outer_name,
                        double otherwise) {
  if (!inner.has("rope_theta")) return otherwise;
  const double theta = inner.positive("rope_theta");
  if (outer.has(outer_name) && theta != otherwise)
    inner.fail("rope_theta", shown_value(inner.at("rope_theta")),
               fmt::format("{}, as {} outside says", otherwise, outer_name));
  return theta;
}

// Where layers with a window have a theta of their own, `rope_parameters` holds one object per kind of layer;
// layers with a window are not scaled. Gives that of the others, if there is one.
std::optional<ConfigFields> global_parameters(const ConfigFields& fields, const ConfigFields& both,
                                              ModelConfig& config) {
  for (const auto& [name, value] : both.json().items())
    if (name != "full_attention" && name != "sliding_attention")
      both.fail(name, shown_value(value), "only full_attention and sliding_attention, as the layers differ");
  if (both.has("sliding_attention")) {
    const ConfigFields local = both.inside("sliding_attention");
    config.local_rope_theta =
        read_inner_theta(local, fields, "rope_local_base_freq", config.local_rope_theta);
    const std::string kind = local.text_or("rope_type", local.text_or("type", "default"));
    if (kind != "default") local.fail("rope_type", shown(kind), "\"default\": only global layers are scaled");
    refuse_partial_rotary(local);
  }
  if (!both.has("full_attention")) return std::nullopt;
  return both.inside("full_attention");
}

void check_theta(const ConfigFields& fields, const char* name, double theta) {
  if (theta < 1 || theta > kMostTheta)
    fields.fail(name, fmt::format("{}", theta), fmt::format("1 to {}", kMostTheta));
}

// Reads rotary positions into a configuration whose shape has been read: theta, scaling, a theta of layers
// with a window. Older files have `rope_theta` and `rope_scaling` side by side, newer ones both inside
// `rope_parameters`. Where the scaling grows with the length seen, the context grows by its factor.
//   throws FileError naming the field
void read_rope(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  config.rope_theta = fields.positive_or("rope_theta", family.default_theta);
  const bool local = family.default_local_theta > 0;
  if (local) config.local_rope_theta = fields.positive_or("rope_local_base_freq", family.default_local_theta);
  refuse_partial_rotary(fields);
  std::optional<RopeScaling> scaling;
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(name)) continue;
    std::optional<ConfigFields> inner(fields.inside(name));
    if (local && std::string_view(name) == "rope_parameters")
      inner = global_parameters(fields, *inner, config);
    if (!inner) continue;
    config.rope_theta = read_inner_theta(*inner, fields, "rope_theta", config.rope_theta);
    const RopeScaling read = read_scaling(*inner, {fields, family, config});
    if (scaling && *scaling != read)
      inner->fail("rope_type", "another scaling", "what rope_scaling says, or only one of the two");
    scaling = read;
    refuse_partial_rotary(*inner);
  }
  if (scaling) config.rope_scaling = *scaling;
  check_theta(fields, "rope_theta", config.rope_theta);
  if (local) check_theta(fields, "rope_local_base_freq", config.local_rope_theta);
  // Dynamic scaling is for what lies past the context that the model was trained on.
  if (config.rope_scaling.kind == Kind::kDynamic && config.rope_scaling.factor > 1)
    config.context_length = std::min(
        kLargestSize,
        static_cast<std::int64_t>(static_cast<double>(config.context_length) * config.rope_scaling.factor));
}

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
    if (!sound) fields.fail("eos_token_id", shown_value(value), "a token id or a list of them");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

const Family& read_architecture(const ConfigFields& fields, ModelConfig& config) {
  const Family* family = find_family(config.model_type);
  if (family == nullptr) {
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
  if (fields.has("quantization_config"))
    fields.fail("quantization_config", shown_value(fields.at("quantization_config")),
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
  const Json json = parse_json_object(config.raw_json, where);
  const ConfigFields fields(json, where);
  config.model_type = fields.text_or("model_type", "");
  config.dtype = read_dtype(fields);
  const Family& family = read_architecture(fields, config);
  read_shape(fields, family, config);
  read_rope(fields, family, config);
  read_windows(fields, family, config);
  read_layers(fields, family, config);
  config.eos_token_ids = read_eos(fields);
  return config;
}

ModelConfig read_config(const fs::path& folder) {
  if (gguf::is_gguf(folder)) return parse_config(gguf_config(gguf::Container(folder)), folder.string());
  const fs::path path = folder / "config.json";
  std::error_code unused;
  if (!fs::exists(path, unused))
    throw FileError(fmt::format("{}: holds no config.json; expected a model folder in Hugging Face layout{}",
                                folder.string(), fetch_advice(folder)));
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

AttentionRules attention_rules(const ModelConfig& config, int layer) {
  const double usual_scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  return {.scale = config.attention_scale > 0 ? config.attention_scale : usual_scale,
          .softcap = config.attention_softcap,
          .window = config.window(layer)};
}

}  // namespace keyscope::capture

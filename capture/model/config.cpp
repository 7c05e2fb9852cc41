#include "capture/model/config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/errors.hpp"
#include "capture/model/family.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::capture {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Generous bounds, far above every known model: what exceeds them is a damaged file.
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostHeads = 65536;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

// One JSON object with its file's name, so that every complaint says where.
class Fields {
 public:
  Fields(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

  bool is_null(const char* name) const { return json_.contains(name) && json_.at(name).is_null(); }
  bool has(const char* name) const { return json_.contains(name) && !json_.at(name).is_null(); }

  std::int64_t count(const char* name, std::int64_t least, std::int64_t most) const {
    if (!has(name)) fail(name, "nothing", "an integer");
    const Json& value = json_.at(name);
    if (!value.is_number_integer()) fail(name, value.dump(), "an integer");
    const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
    const std::int64_t n = too_large ? INT64_MAX : value.get<std::int64_t>();
    if (n < least || n > most) fail(name, value.dump(), fmt::format("{} to {}", least, most));
    return n;
  }
  std::int64_t count_or(const char* name, std::int64_t otherwise, std::int64_t least,
                        std::int64_t most) const {
    return has(name) ? count(name, least, most) : otherwise;
  }
  double positive(const char* name) const {
    if (!has(name)) fail(name, "nothing", "a positive number");
    const Json& value = json_.at(name);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
      fail(name, value.dump(), "a positive number");
    return value.get<double>();
  }
  double positive_or(const char* name, double otherwise) const {
    return has(name) ? positive(name) : otherwise;
  }
  bool flag_or(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_.at(name).is_boolean()) fail(name, json_.at(name).dump(), "true or false");
    return json_.at(name).get<bool>();
  }
  std::string text_or(const char* name, const std::string& otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_.at(name).is_string()) fail(name, json_.at(name).dump(), "a string");
    return json_.at(name).get<std::string>();
  }
  const Json& at(const char* name) const { return json_.at(name); }
  const std::string& file() const { return file_; }

  [[noreturn]] void fail(const std::string& name, std::string found, const std::string& expected) const {
    if (found.size() > 80) found = found.substr(0, 77) + "…";
    throw FileError(fmt::format("{}: {} is {}, expected {}", file_, name, found, expected));
  }

 private:
  const Json& json_;
  std::string file_;
};

// How many tokens a query sees; 0: all. A null means none, nothing at all means the family's default.
std::int64_t read_window(const Fields& fields, const Family& family) {
  if (!family.window) return 0;
  if (!family.window_flag.empty() && !fields.flag_or(std::string(family.window_flag).c_str(), false))
    return 0;
  if (fields.is_null("sliding_window")) return 0;
  return fields.count_or("sliding_window", family.default_window, 1, kLargestSize);
}

void read_shape(const Fields& fields, const Family& family, ModelConfig& config) {
  config.n_layers = static_cast<int>(fields.count("num_hidden_layers", 1, kMostLayers));
  config.n_heads = static_cast<int>(fields.count("num_attention_heads", 1, kMostHeads));
  const std::int64_t kv_heads = family.default_kv_heads > 0 ? family.default_kv_heads : config.n_heads;
  config.n_kv_heads = static_cast<int>(fields.count_or("num_key_value_heads", kv_heads, 1, kMostHeads));
  config.hidden_size = fields.count("hidden_size", 1, kLargestSize);
  config.intermediate_size = fields.count("intermediate_size", 1, kLargestSize);
  config.vocab_size = fields.count("vocab_size", 1, kLargestSize);
  config.context_length = fields.count_or("max_position_embeddings", family.default_context, 1, kLargestSize);
  config.sliding_window = read_window(fields, family);
  if (config.sliding_window > 0)
    config.context_length = std::min(config.context_length, config.sliding_window);
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

// As Transformers reads it; `mscale` and `mscale_all_dim` belong to families that are not supported.
RopeScaling read_yarn(const Fields& fields, RopeScaling scaling, std::int64_t context_length) {
  for (const char* name : {"mscale", "mscale_all_dim"})
    if (fields.has(name)) fields.fail(name, fields.at(name).dump(), "nothing: it is not supported");
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.original_context =
      fields.positive_or("original_max_position_embeddings", static_cast<double>(context_length));
  scaling.beta_fast = fields.positive_or("beta_fast", 32);
  scaling.beta_slow = fields.positive_or("beta_slow", 1);
  if (scaling.beta_fast < scaling.beta_slow)
    fields.fail("beta_fast", fmt::format("{}", scaling.beta_fast),
                fmt::format("at least beta_slow, which is {}", scaling.beta_slow));
  scaling.truncate = fields.flag_or("truncate", true);
  const double usual = scaling.factor <= 1 ? 1 : 0.1 * std::log(scaling.factor) + 1;
  scaling.attention_factor = fields.positive_or("attention_factor", usual);
  return scaling;
}

RopeScaling read_rope_scaling(const Fields& fields, std::int64_t context_length) {
  RopeScaling scaling;
  const bool named = fields.has("rope_type") || fields.has("type");
  if (!named && fields.has("factor"))
    fields.fail("rope_type", "nothing", "the kind of scaling by the factor");
  const std::string kind = fields.text_or("rope_type", fields.text_or("type", "default"));
  if (kind == "default") return scaling;
  if (kind != "linear" && kind != "llama3" && kind != "yarn")
    fields.fail("rope_type", shown(kind), "default, linear, llama3 or yarn");
  scaling.factor = fields.positive("factor");
  if (kind == "yarn") return read_yarn(fields, scaling, context_length);
  if (kind == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    return scaling;
  }
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.low_freq_factor = fields.positive("low_freq_factor");
  scaling.high_freq_factor = fields.positive("high_freq_factor");
  scaling.original_context =
      fields.positive_or("original_max_position_embeddings", static_cast<double>(context_length));
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    fields.fail("high_freq_factor", fmt::format("{}", scaling.high_freq_factor),
                fmt::format("more than low_freq_factor, which is {}", scaling.low_freq_factor));
  return scaling;
}

void refuse_partial_rotary(const Fields& fields) {
  const double part = fields.positive_or("partial_rotary_factor", 1);
  if (part != 1) fields.fail("partial_rotary_factor", fmt::format("{}", part), "1: every coordinate rotates");
}

// The highest frequency is 1, the lowest must still be a float32 that does something, and the factor's
// inverse as well.
void check_frequencies(const Fields& fields, const ModelConfig& config) {
  constexpr double kLeast = 1e-6, kMost = 1e30;
  if (config.rope_theta < 1 || config.rope_theta > kMost)
    fields.fail("rope_theta", fmt::format("{}", config.rope_theta), fmt::format("1 to {}", kMost));
  if (config.rope_scaling.kind != RopeScaling::Kind::kNone &&
      (config.rope_scaling.factor < kLeast || config.rope_scaling.factor > 1 / kLeast))
    fields.fail("the factor of the RoPE scaling", fmt::format("{}", config.rope_scaling.factor),
                fmt::format("{} to {}", kLeast, 1 / kLeast));
}

// Older files have rope_theta and rope_scaling side by side, newer ones both inside rope_parameters.
void read_rope(const Fields& fields, ModelConfig& config) {
  config.rope_theta = fields.positive_or("rope_theta", 10000);
  refuse_partial_rotary(fields);
  std::optional<RopeScaling> scaling;
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(name)) continue;
    if (!fields.at(name).is_object()) fields.fail(name, fields.at(name).dump(), "an object or null");
    const Fields inner(fields.at(name), fields.file() + ": " + name);
    if (fields.has("rope_theta") && inner.has("rope_theta") &&
        inner.positive("rope_theta") != config.rope_theta)
      inner.fail("rope_theta", inner.at("rope_theta").dump(),
                 fmt::format("{}, as rope_theta outside says", config.rope_theta));
    config.rope_theta = inner.positive_or("rope_theta", config.rope_theta);
    const RopeScaling read = read_rope_scaling(inner, config.context_length);
    if (scaling && *scaling != read)
      inner.fail("rope_type", "another scaling", "what rope_scaling says, or only one of the two");
    scaling = read;
    refuse_partial_rotary(inner);
  }
  if (scaling) config.rope_scaling = *scaling;
  check_frequencies(fields, config);
}

std::vector<std::int32_t> read_eos(const Fields& fields) {
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

const Family& check_architecture(const Fields& fields, const ModelConfig& config) {
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
  const std::string activation = fields.text_or("hidden_act", "silu");
  if (activation != "silu") fields.fail("hidden_act", shown(activation), "\"silu\"");
  return *family;
}

// Newer files say `dtype`, older ones `torch_dtype`.
std::string read_dtype(const Fields& fields) {
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

ModelConfig read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code unused;
  if (!fs::exists(path, unused))
    throw FileError(fmt::format("{}: holds no config.json; expected a model folder in Hugging Face layout",
                                folder.string()));
  ModelConfig config;
  config.raw_json = read_small_file(path);
  const Json json = parse_json_object(config.raw_json, path.string());
  const Fields fields(json, path.string());
  config.model_type = fields.text_or("model_type", "");
  config.dtype = read_dtype(fields);
  const Family& family = check_architecture(fields, config);
  read_shape(fields, family, config);
  read_rope(fields, config);
  config.rms_norm_eps = fields.positive_or("rms_norm_eps", 1e-6);
  config.tie_word_embeddings = fields.flag_or("tie_word_embeddings", false);
  config.output_bias = !family.qkv_bias && fields.flag_or("attention_bias", false);
  config.qkv_bias = family.qkv_bias || config.output_bias;
  config.mlp_bias = fields.flag_or("mlp_bias", false);
  config.qk_norm = family.qk_norm;
  config.eos_token_ids = read_eos(fields);

  const fs::path generation = folder / "generation_config.json";
  std::error_code ignored;
  if (fs::exists(generation, ignored)) {
    const Json generation_json = parse_json_object(read_small_file(generation), generation.string());
    const auto ids = read_eos(Fields(generation_json, generation.string()));
    if (!ids.empty()) config.eos_token_ids = ids;
  }
  return config;
}

}  // namespace keyscope::capture

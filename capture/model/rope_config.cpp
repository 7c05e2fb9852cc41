#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "capture/model/config_fields.hpp"

namespace keyscope::capture {

namespace {

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

// 0.1 m ln(factor) + 1, by which YaRN sharpens attention over a longer context.
double sharpening(double factor, double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; }

void read_yarn(const ConfigFields& fields, RopeScaling& scaling) {
  scaling.beta_fast = fields.positive_or("beta_fast", 32);
  scaling.beta_slow = fields.positive_or("beta_slow", 1);
  if (scaling.beta_fast < scaling.beta_slow)
    fields.fail("beta_fast", fmt::format("{}", scaling.beta_fast),
                fmt::format("at least beta_slow, which is {}", scaling.beta_slow));
  scaling.truncate = fields.flag_or("truncate", true);
  double usual = sharpening(scaling.factor, 1);
  if (fields.has("mscale") && fields.has("mscale_all_dim")) {
    const double here = fields.not_negative("mscale"), everywhere = fields.not_negative("mscale_all_dim");
    if (here > 0 && everywhere > 0)
      usual = sharpening(scaling.factor, here) / sharpening(scaling.factor, everywhere);
  }
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
  scaling.short_factors = read_pair_factors(fields, "short_factor", config.rotary_dim / 2);
  scaling.long_factors = read_pair_factors(fields, "long_factor", config.rotary_dim / 2);
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

// How much of a head rotates, from one place that may say it.
double read_rotated_share(const ConfigFields& fields, const Family& family, double otherwise) {
  const double share = fields.positive_or("partial_rotary_factor", otherwise);
  if (!family.partial_rotation && share != 1)
    fields.fail("partial_rotary_factor", fmt::format("{}", share), "1: every coordinate rotates");
  if (share > 1) fields.fail("partial_rotary_factor", fmt::format("{}", share), "at most 1");
  return share;
}

RopeScaling read_scaling(const ConfigFields& fields, const Surroundings& around) {
  RopeScaling scaling;
  scaling.kind = read_kind(fields, around.family);
  if (scaling.kind == Kind::kNone) return scaling;
  if (scaling.kind == Kind::kProportional) {
    scaling.factor = fields.positive_or("factor", 1);
    check_factor(fields, "factor", scaling.factor);
    scaling.rotated_share = read_rotated_share(fields, around.family, 1);
    return scaling;
  }
  if (scaling.kind != Kind::kLinear) scaling.original_context = read_original_context(fields, around);
  if (scaling.kind != Kind::kLongRope) {
    const bool by_lengths = scaling.kind == Kind::kYarn && fields.is_null("factor");
    scaling.factor = by_lengths ? static_cast<double>(around.config.context_length) / scaling.original_context
                                : fields.positive("factor");
    check_factor(fields, "factor", scaling.factor);
  }
  switch (scaling.kind) {
    case Kind::kLinear:
      break;
    case Kind::kDynamic:  // by the context itself, wherever it was trained
      scaling.original_context = static_cast<double>(around.config.context_length);
      if (around.config.rotary_dim <= 2)
        around.fields.fail("head_dim", std::to_string(around.config.rotary_dim),
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

int read_rotary_dim(const ConfigFields& fields, const std::vector<ConfigFields>& inner, const Family& family,
                    int head_dim) {
  double share = read_rotated_share(fields, family, family.default_rotated_share);
  for (const ConfigFields& part : inner) share = read_rotated_share(part, family, share);
  const int dim = static_cast<int>(head_dim * share);
  if (dim < 2 || dim % 2 != 0)
    fields.fail("partial_rotary_factor", fmt::format("{}", share),
                fmt::format("one that makes an even number of the {} coordinates of a head", head_dim));
  return dim;
}

// A theta inside `rope_parameters` must be that outside, if there is one that counts.
//   outer: null: what stands outside does not count
double read_inner_theta(const ConfigFields& inner, const ConfigFields* outer, const char* outer_name,
                        double otherwise) {
  if (!inner.has("rope_theta")) return otherwise;
  const double theta = inner.positive("rope_theta");
  if (outer != nullptr && outer->has(outer_name) && theta != otherwise)
    inner.fail("rope_theta", shown_value(inner.at("rope_theta")),
               fmt::format("{}, as {} outside says", otherwise, outer_name));
  return theta;
}

// Where layers with a window rotate in their own way, `rope_parameters` holds one object per kind of layer;
// layers with a window are not scaled. Gives that of the others, if there is one.
std::optional<ConfigFields> global_parameters(const ConfigFields* outer, const ConfigFields& both,
                                              const Family& family, ModelConfig& config) {
  for (const auto& [name, value] : both.json().items())
    if (name != "full_attention" && name != "sliding_attention")
      both.fail(name, shown_value(value), "only full_attention and sliding_attention, as the layers differ");
  if (both.has("sliding_attention")) {
    const ConfigFields local = both.inside("sliding_attention");
    config.local_rope_theta = read_inner_theta(local, outer, "rope_local_base_freq", config.local_rope_theta);
    const std::string kind = local.text_or("rope_type", local.text_or("type", "default"));
    if (kind != "default") local.fail("rope_type", shown(kind), "\"default\": only global layers are scaled");
    read_rotated_share(local, family, 1);
  }
  if (!both.has("full_attention")) return std::nullopt;
  return both.inside("full_attention");
}

void check_theta(const ConfigFields& fields, const char* name, double theta) {
  if (theta < 1 || theta > kMostTheta)
    fields.fail(name, fmt::format("{}", theta), fmt::format("1 to {}", kMostTheta));
}

// The objects that speak of the rotation of layers without a window.
std::vector<ConfigFields> rotation_objects(const ConfigFields& fields, const Family& family,
                                           const ConfigFields* outer, ModelConfig& config) {
  std::vector<ConfigFields> objects;
  if (fields.has("rope_scaling")) objects.push_back(fields.inside("rope_scaling"));
  if (!fields.has("rope_parameters")) return objects;
  const ConfigFields parameters = fields.inside("rope_parameters");
  if (family.local_rotation == LocalRotation::kAsOthers) {
    for (const char* kind : {"full_attention", "sliding_attention"})
      if (parameters.has(kind))
        parameters.fail(kind, shown_value(parameters.at(kind)), "one rotation, that of all layers");
    objects.push_back(parameters);
  } else if (const auto global = global_parameters(outer, parameters, family, config))
    objects.push_back(*global);
  return objects;
}

// By which queries grow with their position.
void read_query_growth(const ConfigFields& fields, ModelConfig& config) {
  if (!fields.has("llama_4_scaling_beta")) return;
  config.query_growth = fields.not_negative("llama_4_scaling_beta");
  config.query_growth_length = fields.positive("original_max_position_embeddings");
}

// Of latent attention, whose parts that do not rotate YaRN sharpens as well: by the square, as queries and
// keys are, and in every dimension.
double sharpened_scale(const ConfigFields& fields, const RopeScaling& scaling, const ModelConfig& config) {
  if (scaling.kind == Kind::kNone || !fields.has("mscale_all_dim")) return config.attention_scale;
  const double m = fields.not_negative("mscale_all_dim");
  const double by = m > 0 ? sharpening(scaling.factor, m) : 1;
  return config.attention_scale * by * by;
}

}  // namespace

void read_rope(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const ConfigFields* outer = family.only_rope_parameters ? nullptr : &fields;
  const auto theta_outside = [&](const char* name, double otherwise) {
    return outer == nullptr ? otherwise : outer->positive_or(name, otherwise);
  };
  config.rope_theta = theta_outside("rope_theta", family.default_theta);
  config.interleaved_rotation = family.interleaved_rotation;
  if (family.latent.has)
    config.interleaved_rotation = family.latent.interleaved_field.empty() ||
                                  fields.flag_or(std::string(family.latent.interleaved_field), true);
  if (family.local_rotation == LocalRotation::kOwnTheta)
    config.local_rope_theta = theta_outside("rope_local_base_freq", family.default_local_theta);
  std::vector<ConfigFields> objects = rotation_objects(fields, family, outer, config);
  const auto by_default = nlohmann::json::parse(family.default_rope.empty() ? "{}" : family.default_rope);
  if (objects.empty() && !by_default.empty()) {
    objects.emplace_back(by_default, fields.where());
    outer = nullptr;  // the family's own parameters are whole
  }
  if (config.layer_heads.empty()) {
    config.rotary_dim = read_rotary_dim(fields, objects, family,
                                        family.latent.has ? config.latent.rotated_dim : config.head_dim);
    config.local_rotary_dim = config.rotary_dim;
  }
  for (int layer = 0; layer < std::ssize(config.layer_heads); ++layer)  // all that a head has
    (config.window(layer) > 0 ? config.local_rotary_dim : config.rotary_dim) = config.heads(layer).head_dim;
  if (config.local_rotary_dim == 0) config.local_rotary_dim = config.rotary_dim;
  std::optional<RopeScaling> scaling;
  double latent_scale = 0;
  for (const ConfigFields& inner : objects) {
    config.rope_theta = read_inner_theta(inner, outer, "rope_theta", config.rope_theta);
    const RopeScaling read = read_scaling(inner, {fields, family, config});
    if (scaling && *scaling != read)
      inner.fail("rope_type", "another scaling", "what rope_scaling says, or only one of the two");
    scaling = read;
    if (family.growing_queries) read_query_growth(inner, config);
    if (family.latent.has) latent_scale = sharpened_scale(inner, read, config);
  }
  if (scaling) config.rope_scaling = *scaling;
  if (latent_scale > 0) config.attention_scale = latent_scale;
  check_theta(fields, "rope_theta", config.rope_theta);
  if (family.local_rotation == LocalRotation::kUnscaled && config.local_rope_theta == 0)
    config.local_rope_theta = config.rope_theta;
  if (config.local_rope_theta > 0) check_theta(fields, "rope_local_base_freq", config.local_rope_theta);
  // Dynamic scaling is for what lies past the context that the model was trained on.
  if (config.rope_scaling.kind == Kind::kDynamic && config.rope_scaling.factor > 1)
    config.context_length = std::min(
        kLargestSize,
        static_cast<std::int64_t>(static_cast<double>(config.context_length) * config.rope_scaling.factor));
}

}  // namespace keyscope::capture

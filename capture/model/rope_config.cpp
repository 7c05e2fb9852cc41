#include "capture/model/rope_config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capture/model/strict_json.hpp"

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

// As Transformers reads it; `mscale` and `mscale_all_dim` belong to families that are not supported.
void read_yarn(const ConfigFields& fields, RopeScaling& scaling) {
  for (const char* name : {"mscale", "mscale_all_dim"})
    if (fields.has(name)) fields.fail(name, fields.at(name).dump(), "nothing: it is not supported");
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
  if (!list.is_array()) fields.fail(name, list.dump(), expected);
  if (list.size() != static_cast<std::size_t>(n_pairs))
    fields.fail(name, fmt::format("a list of {}", list.size()), expected);
  std::vector<double> factors;
  for (const nlohmann::json& factor : list) {
    if (!factor.is_number()) fields.fail(name, list.dump(), expected);
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
    inner.fail("rope_theta", inner.at("rope_theta").dump(),
               fmt::format("{}, as {} outside says", otherwise, outer_name));
  return theta;
}

// Where layers with a window have a theta of their own, `rope_parameters` holds one object per kind of layer;
// layers with a window are not scaled. Gives that of the others, if there is one.
std::optional<ConfigFields> global_parameters(const ConfigFields& fields, const ConfigFields& both,
                                              ModelConfig& config) {
  for (const auto& [name, value] : both.json().items())
    if (name != "full_attention" && name != "sliding_attention")
      both.fail(name, value.dump(), "only full_attention and sliding_attention, as the layers differ");
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

}  // namespace

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

}  // namespace keyscope::capture

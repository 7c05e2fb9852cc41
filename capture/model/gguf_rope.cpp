#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/model/gguf_config.hpp"

namespace keyscope::capture {

namespace {

using gguf::Tensor;
using gguf::Value;
using ConfigJson = nlohmann::ordered_json;

std::vector<double> pair_factors(const GgufFields& from, std::string_view name, std::int64_t n_pairs) {
  const Tensor& tensor = *from.tensor(name);
  if (tensor.format->name != "F32" || tensor.shape != std::vector<std::int64_t>{n_pairs})
    throw FileError(fmt::format("{}: tensor {} is {} [{}], expected F32 [{}], one per rotated pair",
                                tensor.file, name, tensor.format->name, shown_list(tensor.shape), n_pairs));
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
ConfigJson longrope_scaling(const GgufFields& from, std::int64_t n_pairs, ConfigJson& config) {
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

ConfigJson yarn_scaling(const GgufFields& from, const Family& family) {
  ConfigJson scaling{
      {"rope_type", "yarn"},
      {"factor", from.require("rope.scaling.factor").number()},
      {"original_max_position_embeddings", from.count("rope.scaling.original_context_length")}};
  for (const auto& [key, field] : {std::pair{"rope.scaling.yarn_attn_factor", "attention_factor"},
                                   {"rope.scaling.yarn_beta_fast", "beta_fast"},
                                   {"rope.scaling.yarn_beta_slow", "beta_slow"},
                                   {"attention.temperature_scale", "llama_4_scaling_beta"}})
    if (const auto number = from.number(key)) scaling[field] = *number;
  // Of the two numbers that make an attention factor the file has one, and llama.cpp takes 1 for the other.
  if (const auto everywhere = from.number("rope.scaling.yarn_log_multiplier");
      everywhere && *everywhere != 0) {
    scaling["mscale"] = 1.0;
    scaling["mscale_all_dim"] = *everywhere;
  }
  if (const auto given = from.number("rope.scaling.yarn_ext_factor"); given && *given != 1 && *given >= 0)
    from.require("rope.scaling.yarn_ext_factor")
        .fail(fmt::format("{}", *given), "1: others are not supported");
  // Its ramp does not end at whole pairs, which the file does not say.
  if (family.model_type == "gpt_oss") scaling["truncate"] = false;
  return scaling;
}

// Of a file that names no kind of scaling, a factor is that of a linear one.
ConfigJson linear_scaling(const GgufFields& from, bool is_named) {
  const bool is_old =
      from.find("rope.scaling.factor") == nullptr && from.find("rope.scale_linear") != nullptr;
  const char* key = is_old ? "rope.scale_linear" : "rope.scaling.factor";
  if (is_named && !is_old) from.require(key);
  const double factor = from.number(key).value_or(0);
  if (factor == 0 || (!is_named && factor == 1)) return nullptr;
  return {{"rope_type", "linear"}, {"factor", factor}};
}

ConfigJson scaling_of(const GgufFields& from, const Family& family, std::int64_t n_pairs,
                      ConfigJson& config) {
  const Value* type = from.find("rope.scaling.type");
  const std::string kind(type == nullptr ? "" : type->string());
  if (from.tensor("rope_freqs.weight") != nullptr) {
    if (!kind.empty() && kind != "none")
      type->fail(shown(kind), "none, as there is a tensor rope_freqs.weight");
    return scaling_of_factors(pair_factors(from, "rope_freqs.weight", n_pairs),
                              config["rope_theta"].get<double>(), from.count("context_length"));
  }
  if (kind == "longrope" || from.tensor("rope_factors_long.weight") != nullptr) {
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
      if (from.tensor(name) == nullptr)
        throw FileError(fmt::format("{}: has no tensor {}, which its RoPE needs", from.file().name(), name));
    return longrope_scaling(from, n_pairs, config);
  }
  if (kind.empty() || kind == "linear") return linear_scaling(from, !kind.empty());
  if (kind == "yarn") return yarn_scaling(from, family);
  if (kind != "none") type->fail(shown(kind), "none, linear, yarn or longrope");
  return nullptr;
}

// Positions of several kinds in one head, as models that see pictures have them.
void refuse_sections(const GgufFields& from) {
  const Value* sections = from.find("rope.dimension_sections");
  if (sections == nullptr) return;
  sections->for_each([&](const Value& size) {
    if (size.integer(INT32_MIN, INT32_MAX) > 0)
      sections->fail("a list of sizes", "nothing: positions of several kinds are not supported");
  });
}

}  // namespace

void add_gguf_rope(const GgufFields& from, const Family& family, std::int64_t head_dim, ConfigJson& config) {
  const double theta = from.number("rope.freq_base").value_or(10000);
  config["rope_theta"] = theta;
  if (const auto local = from.number("rope.freq_base_swa")) {
    if (family.local_rotation == LocalRotation::kOwnTheta)
      config["rope_local_base_freq"] = *local;
    else if (*local != theta)
      from.require("rope.freq_base_swa")
          .fail(fmt::format("{}", *local), fmt::format("{}, as rope.freq_base is", theta));
  }
  refuse_sections(from);
  const std::int64_t rotated = from.count_or("rope.dimension_count", head_dim);
  if (rotated != head_dim || family.partial_rotation)
    config["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_dim);
  const ConfigJson scaling = scaling_of(from, family, rotated / 2, config);
  // A family that is scaled by itself is not where the file does not say so.
  if (!scaling.is_null())
    config["rope_scaling"] = scaling;
  else if (!family.default_rope.empty())
    config["rope_scaling"] = {{"rope_type", "default"}};
}

}  // namespace keyscope::capture

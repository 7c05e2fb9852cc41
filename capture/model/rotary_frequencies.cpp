#include "capture/model/rotary_frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace keyscope::capture {
namespace {

using Frequencies = std::vector<float>;

float narrow(double value) { return static_cast<float>(value); }

Frequencies reciprocals(Frequencies values) {
  for (float& value : values) value = 1 / value;
  return values;
}

// Llama 3.1's stretch: low frequencies divided by the factor, high ones kept, a ramp between.
// Source: Llama 3.1's reference code; parameters in config.json's rope_scaling.
void scale_llama3(Frequencies& frequencies, const RopeScaling& scaling) {
  const float low_wavelength = narrow(scaling.original_context / scaling.low_freq_factor);
  const float high_wavelength = narrow(scaling.original_context / scaling.high_freq_factor);
  const float context = narrow(scaling.original_context), factor = narrow(scaling.factor);
  const float low = narrow(scaling.low_freq_factor);
  const float width = narrow(scaling.high_freq_factor - scaling.low_freq_factor);
  for (float& frequency : frequencies) {
    const float wavelength = 1 / frequency * narrow(2 * std::numbers::pi);
    if (wavelength > low_wavelength) {
      frequency = frequency / factor;
    } else if (wavelength >= high_wavelength) {
      const float ramp = (1 / wavelength * context - low) / width;
      frequency = (1 - ramp) * frequency / factor + ramp * frequency;
    }
  }
}

// YaRN: pairs of coordinates that turn less than beta_slow times over the original context are interpolated,
// those that turn more than beta_fast times are kept, with a ramp between (arXiv 2309.00071, Section 3.2).
void scale_yarn(Frequencies& frequencies, const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto pair_that_turns = [&](double n_turns) {
    return config.rotary_dim * std::log(scaling.original_context / (n_turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.rope_theta));
  };
  double low = pair_that_turns(scaling.beta_fast), high = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, config.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  const float first = narrow(low), width = narrow(high - low), factor = narrow(scaling.factor);
  float pair = 0;
  for (float& frequency : frequencies) {
    const float kept = 1 - std::clamp((pair++ - first) / width, 0.0F, 1.0F);
    frequency = frequency / factor * (1 - kept) + frequency * kept;
  }
}

// The last pairs of coordinates do not turn.
void scale_proportional(Frequencies& frequencies, const RopeScaling& scaling) {
  const double n = static_cast<double>(frequencies.size());
  const auto n_turning = static_cast<std::ptrdiff_t>(scaling.rotated_share * n);
  for (float& frequency : frequencies) frequency /= narrow(scaling.factor);
  std::fill(frequencies.begin() + n_turning, frequencies.end(), 0.0F);
}

// LongRoPE: every pair of coordinates has a factor of its own.
Frequencies scale_longrope(Frequencies powers, const std::vector<double>& factors) {
  for (std::size_t pair = 0; pair < powers.size(); ++pair) powers[pair] *= narrow(factors[pair]);
  return reciprocals(std::move(powers));
}

}  // namespace

std::vector<float> library_powers(double base, std::span<const float> exponents) {
  std::vector<float> powers;
  for (const float exponent : exponents) powers.push_back(std::pow(narrow(base), exponent));
  return powers;
}

RotaryFrequencies::RotaryFrequencies(const ModelConfig& config, bool local, Powers powers)
    : scaling_(local ? RopeScaling() : config.rope_scaling),
      theta_(local ? config.local_rope_theta : config.rope_theta),
      powers_(powers) {
  const int rotary_dim = local ? config.local_rotary_dim : config.rotary_dim;
  for (int i = 0; i < rotary_dim; i += 2)
    exponents_.push_back(static_cast<float>(i) / static_cast<float>(rotary_dim));
  const Frequencies power = powers(theta_, exponents_);
  usual_ = reciprocals(power);
  switch (scaling_.kind) {
    case RopeScaling::Kind::kNone:
    case RopeScaling::Kind::kDynamic:
      break;
    case RopeScaling::Kind::kLinear:
      for (float& frequency : usual_) frequency /= narrow(scaling_.factor);
      break;
    case RopeScaling::Kind::kLlama3:
      scale_llama3(usual_, scaling_);
      break;
    case RopeScaling::Kind::kYarn:
      scale_yarn(usual_, config);
      break;
    case RopeScaling::Kind::kProportional:
      scale_proportional(usual_, scaling_);
      break;
    case RopeScaling::Kind::kLongRope:
      usual_ = scale_longrope(power, scaling_.short_factors);
      long_ = scale_longrope(power, scaling_.long_factors);
  }
}

std::vector<float> RotaryFrequencies::of(std::int64_t length) const {
  if (static_cast<double>(length) <= scaling_.original_context) return usual_;
  if (scaling_.kind == RopeScaling::Kind::kDynamic) return of_grown_theta(length);
  return scaling_.kind == RopeScaling::Kind::kLongRope ? long_ : usual_;
}

// NTK-aware scaling: theta grows so that the lowest frequency, stretched by the factor, fits the length seen
// while the highest stays as it is. In float32, like the length in Transformers.
std::vector<float> RotaryFrequencies::of_grown_theta(std::int64_t length) const {
  const double n_coordinates = 2.0 * static_cast<double>(exponents_.size());
  const float seen = static_cast<float>(length) * narrow(scaling_.factor);
  const float growth = seen / narrow(scaling_.original_context) - narrow(scaling_.factor - 1);
  const float exponent = narrow(n_coordinates / (n_coordinates - 2));
  const float grown = narrow(theta_) * std::pow(growth, exponent);
  return reciprocals(powers_(grown, exponents_));
}

}  // namespace keyscope::capture

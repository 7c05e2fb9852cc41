#include "capture/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

namespace keyscope::capture {
namespace {

// Llama 3.1's stretch: low frequencies divided by the factor, high ones kept, a ramp between.
// Source: Llama 3.1's reference code; parameters in config.json's rope_scaling.
at::Tensor scale_llama3(const at::Tensor& frequency, const RopeScaling& scaling) {
  const double low_wavelength = scaling.original_context / scaling.low_freq_factor;
  const double high_wavelength = scaling.original_context / scaling.high_freq_factor;
  const at::Tensor wavelength = frequency.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor stretched = at::where(wavelength > low_wavelength, frequency / scaling.factor, frequency);
  const at::Tensor ramp = (wavelength.reciprocal() * scaling.original_context - scaling.low_freq_factor) /
                          (scaling.high_freq_factor - scaling.low_freq_factor);
  const at::Tensor smoothed = (1 - ramp) * stretched / scaling.factor + ramp * stretched;
  const at::Tensor between = (wavelength >= high_wavelength).logical_and(wavelength <= low_wavelength);
  return at::where(between, smoothed, stretched);
}

// YaRN: pairs of coordinates that turn less than beta_slow times over the original context are interpolated,
// those that turn more than beta_fast times are kept, with a ramp between (arXiv 2309.00071, Section 3.2).
at::Tensor scale_yarn(const at::Tensor& frequency, const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto pair_that_turns = [&](double n_turns) {
    return config.head_dim * std::log(scaling.original_context / (n_turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.rope_theta));
  };
  double low = pair_that_turns(scaling.beta_fast), high = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, config.head_dim - 1.0);
  if (low == high) high += 0.001;
  const at::Tensor pair = at::arange(config.head_dim / 2, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor kept = 1 - ((pair - low) / (high - low)).clamp(0, 1);
  return frequency / scaling.factor * (1 - kept) + frequency * kept;
}

}  // namespace

// In float32, operation by operation as Transformers does: at position 10,000 one rounding of a frequency is
// already a visible angle.
Rope::Rope(const ModelConfig& config) {
  const at::Tensor exponent =
      at::arange(0, config.head_dim, 2, at::TensorOptions().dtype(at::kFloat)) / config.head_dim;
  inverse_frequency_ = at::pow(config.rope_theta, exponent).reciprocal();
  if (config.rope_scaling.kind == RopeScaling::Kind::kLinear)
    inverse_frequency_ = inverse_frequency_ / config.rope_scaling.factor;
  if (config.rope_scaling.kind == RopeScaling::Kind::kLlama3)
    inverse_frequency_ = scale_llama3(inverse_frequency_, config.rope_scaling);
  if (config.rope_scaling.kind == RopeScaling::Kind::kYarn) {
    inverse_frequency_ = scale_yarn(inverse_frequency_, config);
    attention_factor_ = config.rope_scaling.attention_factor;
  }
}

RotaryTable Rope::table(std::int64_t first, std::int64_t n, at::ScalarType dtype) const {
  const at::Tensor positions = at::arange(first, first + n, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor half = positions.unsqueeze(1) * inverse_frequency_.unsqueeze(0);
  const at::Tensor angle = at::cat({half, half}, 1);
  return {(angle.cos() * attention_factor_).to(dtype), (angle.sin() * attention_factor_).to(dtype)};
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor turned = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return x * table.cos + turned * table.sin;
}

}  // namespace keyscope::capture

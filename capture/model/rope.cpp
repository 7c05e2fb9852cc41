#include "capture/model/rope.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
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
  const at::Tensor pair = at::arange(config.rotary_dim / 2, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor kept = 1 - ((pair - low) / (high - low)).clamp(0, 1);
  return frequency / scaling.factor * (1 - kept) + frequency * kept;
}

// The last pairs of coordinates do not turn.
at::Tensor scale_proportional(const at::Tensor& frequency, const RopeScaling& scaling) {
  at::Tensor scaled = frequency / scaling.factor;
  const std::int64_t n = frequency.size(0);
  const auto n_turning = static_cast<std::int64_t>(scaling.rotated_share * static_cast<double>(n));
  scaled.narrow(0, n_turning, n - n_turning).zero_();
  return scaled;
}

// LongRoPE: every pair of coordinates has a factor of its own.
at::Tensor scale_longrope(const at::Tensor& power, const std::vector<double>& factors) {
  const std::vector<float> narrow(factors.begin(), factors.end());
  at::Tensor factor = at::empty_like(power);
  std::copy(narrow.begin(), narrow.end(), factor.mutable_data_ptr<float>());
  return (factor * power).reciprocal();
}

// NTK-aware scaling: theta grows so that the lowest frequency, stretched by the factor, fits the length seen
// while the highest stays as it is. In float32, like the length in Transformers.
at::Tensor scale_dynamic(const at::Tensor& exponent, double theta, const RopeScaling& scaling,
                         std::int64_t length) {
  const double n_coordinates = 2.0 * static_cast<double>(exponent.numel());
  const at::Tensor seen = at::full({}, static_cast<double>(length), exponent.options());
  const at::Tensor growth = (seen * scaling.factor) / scaling.original_context - (scaling.factor - 1);
  const at::Tensor grown = theta * at::pow(growth, n_coordinates / (n_coordinates - 2));
  return at::pow(grown, exponent).reciprocal();
}

at::Tensor exponents(int rotary_dim) {
  return at::arange(0, rotary_dim, 2, at::TensorOptions().dtype(at::kFloat)) / rotary_dim;
}

}  // namespace

// In float32, operation by operation as Transformers does: at position 10,000 one rounding of a frequency is
// already a visible angle.
Rope::Rope(const ModelConfig& config, bool local)
    : scaling_(local ? RopeScaling() : config.rope_scaling),
      theta_(local ? config.local_rope_theta : config.rope_theta),
      query_growth_(config.query_growth),
      query_growth_length_(config.query_growth_length),
      exponent_(exponents(local ? config.local_rotary_dim : config.rotary_dim)) {
  const at::Tensor power = at::pow(theta_, exponent_);
  inverse_frequency_ = power.reciprocal();
  switch (scaling_.kind) {
    case RopeScaling::Kind::kNone:
    case RopeScaling::Kind::kDynamic:
      break;
    case RopeScaling::Kind::kLinear:
      inverse_frequency_ = inverse_frequency_ / scaling_.factor;
      break;
    case RopeScaling::Kind::kLlama3:
      inverse_frequency_ = scale_llama3(inverse_frequency_, scaling_);
      break;
    case RopeScaling::Kind::kYarn:
      inverse_frequency_ = scale_yarn(inverse_frequency_, config);
      break;
    case RopeScaling::Kind::kProportional:
      inverse_frequency_ = scale_proportional(inverse_frequency_, scaling_);
      break;
    case RopeScaling::Kind::kLongRope:
      inverse_frequency_ = scale_longrope(power, scaling_.short_factors);
      long_inverse_frequency_ = scale_longrope(power, scaling_.long_factors);
  }
}

at::Tensor Rope::inverse_frequency(std::int64_t length) const {
  if (static_cast<double>(length) <= scaling_.original_context) return inverse_frequency_;
  if (scaling_.kind == RopeScaling::Kind::kDynamic) return scale_dynamic(exponent_, theta_, scaling_, length);
  return scaling_.kind == RopeScaling::Kind::kLongRope ? long_inverse_frequency_ : inverse_frequency_;
}

RotaryTable Rope::table(std::int64_t first, std::int64_t n) const {
  const at::Tensor positions = at::arange(first, first + n, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor angle = positions.unsqueeze(1) * inverse_frequency(first + n).unsqueeze(0);
  return {angle.cos() * scaling_.attention_factor, angle.sin() * scaling_.attention_factor};
}

RotaryTable Rope::query_table(const RotaryTable& table, std::int64_t first) const {
  if (query_growth_ == 0) return table;
  const std::int64_t n = table.cos.size(-2);
  const at::Tensor position = at::arange(first, first + n, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor growth = 1 + query_growth_ * at::log(1 + at::floor(position / query_growth_length_));
  const at::Tensor of_rows = growth.unsqueeze(1).to(table.cos.device());
  return {table.cos * of_rows, table.sin * of_rows};
}

at::Tensor HeadRotation::operator()(const at::Tensor& x) const {
  return at::addcmul(x * cos, x.index_select(-1, partner), sin).to(x.scalar_type());
}

HeadRotation head_rotation(const RotaryTable& table, std::int64_t head_dim, bool interleaved,
                           at::Device device) {
  const std::int64_t half = table.cos.size(-1), side = interleaved ? -1 : -2;
  const at::Tensor turning = at::arange(2 * half, at::TensorOptions().dtype(at::kLong));
  const at::Tensor pairs = interleaved ? turning.view({half, 2}).flip(1) : turning.view({2, half}).flip(0);
  const at::Tensor cos = at::stack({table.cos, table.cos}, side).flatten(-2);
  const at::Tensor sin = at::stack({-table.sin, table.sin}, side).flatten(-2);
  const std::array<std::int64_t, 2> more{0, head_dim - 2 * half};
  return {at::constant_pad_nd(cos, more, 1).to(device), at::constant_pad_nd(sin, more, 0).to(device),
          at::cat({pairs.flatten(), at::arange(2 * half, head_dim, turning.options())}).to(device)};
}

}  // namespace keyscope::capture

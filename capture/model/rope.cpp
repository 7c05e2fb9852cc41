#include "capture/model/rope.hpp"

#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
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
}

RotaryTable Rope::table(std::int64_t first, std::int64_t n, at::ScalarType dtype) const {
  const at::Tensor positions = at::arange(first, first + n, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor half = positions.unsqueeze(1) * inverse_frequency_.unsqueeze(0);
  const at::Tensor angle = at::cat({half, half}, 1);
  return {angle.cos().to(dtype), angle.sin().to(dtype)};
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor turned = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return x * table.cos + turned * table.sin;
}

}  // namespace keyscope::capture

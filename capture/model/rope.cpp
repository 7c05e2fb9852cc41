#include "capture/model/rope.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>

namespace keyscope::capture {
namespace {

// (n) float32
at::Tensor tensor_of(std::span<const float> values) {
  at::Tensor tensor = at::empty({std::ssize(values)}, at::TensorOptions().dtype(at::kFloat));
  std::ranges::copy(values, tensor.mutable_data_ptr<float>());
  return tensor;
}

std::vector<float> libtorch_powers(double base, std::span<const float> exponents) {
  const at::Tensor powers = at::pow(base, tensor_of(exponents));
  const float* first = powers.const_data_ptr<float>();
  return {first, first + powers.numel()};
}

}  // namespace

Rope::Rope(const ModelConfig& config, bool local)
    : frequencies_(config, local, libtorch_powers),
      attention_factor_(local ? 1 : config.rope_scaling.attention_factor),
      query_growth_(config.query_growth),
      query_growth_length_(config.query_growth_length) {}

at::Tensor Rope::inverse_frequency(std::int64_t length) const { return tensor_of(frequencies_.of(length)); }

RotaryTable Rope::table(std::int64_t first, std::int64_t n) const {
  const at::Tensor positions = at::arange(first, first + n, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor angle = positions.unsqueeze(1) * inverse_frequency(first + n).unsqueeze(0);
  return {angle.cos() * attention_factor_, angle.sin() * attention_factor_};
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

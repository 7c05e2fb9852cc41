#include "capture/inference/tensor_parts.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <Eigen/Core>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

using std::int64_t;

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

at::Tensor to_device(std::span<const double> numbers, const at::Tensor& like) {
  const at::Tensor here = at::empty({std::ssize(numbers)}, at::TensorOptions().dtype(at::kDouble));
  std::ranges::copy(numbers, here.mutable_data_ptr<double>());
  return here.to(like.device());
}

}  // namespace

at::Tensor doubles(const at::Tensor& rows) { return rows.to(at::kDouble); }

at::Tensor quotient(const at::Tensor& x, const at::Tensor& y) {
  return at::where(y == 0, at::zeros_like(y), x / y);
}

at::Tensor standardised_scores(const at::Tensor& scores) {
  constexpr double kLeastDeviation = 1e-6;
  const at::Tensor centred = scores - scores.mean(1, true);
  return centred / centred.square().mean(1, true).sqrt_().clamp_min_(kLeastDeviation);
}

namespace {

// On the host: one is small, and CUDA's needs a library more than all else does.
std::pair<at::Tensor, at::Tensor> eigenpairs(const at::Tensor& matrices) {
  const at::Tensor here = matrices.to(at::kCPU);
  if (!here.isfinite().all().item<bool>()) throw InvalidInput("keys or values hold NaN or Inf");
  const auto [values, vectors] = at::linalg_eigh(here);
  return {values.to(matrices.device()), vectors.to(matrices.device())};
}

}  // namespace

// Eigenvalues of A are 1 at least; what rounding makes of a large A's smallest is not.
at::Tensor inverse_roots(const at::Tensor& a) {
  const auto [values, vectors] = eigenpairs(a);
  return vectors * values.clamp_min(1).rsqrt_().unsqueeze(-2);
}

at::Tensor tensor_leverages(const at::Tensor& rows, double ridge) {
  constexpr double kSmallestEigenvalue = 1e-10;  // of the largest
  const auto [values, vectors] = eigenpairs(at::bmm(rows.transpose(1, 2), rows));
  const at::Tensor cut = values.amax(1, true) * kSmallestEigenvalue;
  const at::Tensor weight = at::where(values > cut, (values + ridge).rsqrt(), at::zeros_like(values));
  return at::bmm(rows, vectors * weight.unsqueeze(1)).square_().sum(2);
}

namespace {

// To the right, as if the numbers had no sign.
at::Tensor shifted(const at::Tensor& bits, int n) {
  const auto mask = static_cast<int64_t>(~std::uint64_t{0} >> n);
  return bits.bitwise_right_shift(n).bitwise_and(mask);
}

at::Tensor splitmixed(at::Tensor x) {
  x = x + static_cast<int64_t>(analysis::kSplitmixStep);
  x = x.bitwise_xor(shifted(x, 30)) * static_cast<int64_t>(0xbf58476d1ce4e5b9u);
  x = x.bitwise_xor(shifted(x, 27)) * static_cast<int64_t>(0x94d049bb133111ebu);
  return x.bitwise_xor(shifted(x, 31));
}

}  // namespace

at::Tensor uniform_draws(std::uint64_t seed, int layer, int first_head, int64_t n_heads,
                         const at::Tensor& positions) {
  const std::uint64_t of_layer =
      analysis::splitmix(analysis::splitmix(seed) ^ static_cast<std::uint32_t>(layer));
  at::Tensor of_heads = at::empty({n_heads, 1}, at::TensorOptions().dtype(at::kLong));
  auto* hash = of_heads.mutable_data_ptr<int64_t>();
  for (int64_t head = 0; head < n_heads; ++head)
    hash[head] =
        static_cast<int64_t>(analysis::splitmix(of_layer ^ static_cast<std::uint32_t>(first_head + head)));
  const at::Tensor bits = splitmixed(of_heads.to(positions.device()).bitwise_xor(positions));
  return doubles(shifted(bits, 11)) * 0x1p-53;
}

std::pair<at::Tensor, at::Tensor> turning_pairs(const at::Tensor& rows, const analysis::Rotation& rotation) {
  const int64_t n_pairs = rotation.n_pairs();
  const at::Tensor turning = rows.narrow(-1, 0, 2 * n_pairs);
  if (!rotation.interleaved) return {turning.narrow(-1, 0, n_pairs), turning.narrow(-1, n_pairs, n_pairs)};
  const at::Tensor pairs = turning.unflatten(-1, {n_pairs, 2});
  return {pairs.select(-1, 0), pairs.select(-1, 1)};
}

at::Tensor unrotated_keys(const at::Tensor& keys, const at::Tensor& positions,
                          const analysis::Rotation& rotation) {
  at::Tensor rows = keys.to(at::kDouble, false, true);
  if (rotation.n_pairs() == 0) return rows;
  const at::Tensor angles = doubles(positions).unsqueeze(2) * to_device(rotation.frequencies, keys);
  const at::Tensor cos = angles.cos(), sin = angles.sin();
  const auto [x, y] = turning_pairs(rows, rotation);
  const at::Tensor turned = cos * x + sin * y;
  y.copy_(cos * y - sin * x);
  x.copy_(turned);
  return rows;
}

at::Tensor mean_rotation_matrix(const analysis::Rotation& rotation, int64_t d, int64_t first, int64_t n) {
  const analysis::MeanRotation turn(rotation, first, n);
  at::Tensor matrix = at::empty({d, d}, at::TensorOptions().dtype(at::kDouble));
  for (int64_t column = 0; column < d; ++column) {
    const Eigen::VectorXd turned = turn(Eigen::VectorXd(Eigen::VectorXd::Unit(d, column)));
    for (int64_t row = 0; row < d; ++row) matrix.mutable_data_ptr<double>()[row * d + column] = turned[row];
  }
  return matrix;
}

at::Tensor weights_there(const at::Tensor& queries, int64_t end,
                         std::span<const analysis::AttentionRules> rules, const at::Tensor& keys,
                         const at::Tensor& positions) {
  const int64_t h = queries.size(0), group = queries.size(1), w = queries.size(2), n = keys.size(1);
  const analysis::AttentionRules& rule = rules.front();  // which differ in their sinks alone
  at::Tensor scores = at::bmm(doubles(queries.flatten(1, 2)), doubles(keys).transpose(1, 2));
  scores = scores.mul_(rule.scale).view({h, group, w, n});
  if (rule.softcap > 0) scores = (scores / rule.softcap).tanh_().mul_(rule.softcap);
  const at::Tensor query = at::arange(end - w, end, positions.options()).view({1, 1, w, 1});
  const at::Tensor row = positions.view({h, 1, 1, n});
  at::Tensor hidden = row > query;
  if (rule.window > 0) hidden = hidden.logical_or(row <= query - rule.window);
  scores.masked_fill_(hidden, kUnseen);
  std::vector<double> of_heads;
  for (const analysis::AttentionRules& head : rules) of_heads.push_back(head.sink);
  const at::Tensor sinks = to_device(of_heads, keys).view({h, group, 1, 1});
  const at::Tensor largest = at::maximum(scores.amax(-1, true), sinks);
  const at::Tensor blind = largest == kUnseen;  // all that the query saw is past the layer's window
  const at::Tensor e = (scores - largest).exp_();
  return (e / (e.sum(-1, true) + (sinks - largest).exp_())).masked_fill_(blind, 0);
}

void TensorMoments::add(const at::Tensor& queries, const analysis::Rotation& rotation) {
  const at::Tensor rows = doubles(queries);
  const auto [x, y] = turning_pairs(rows, rotation);
  const int64_t n_turning = 2 * rotation.n_pairs();
  const at::Tensor lengths =
      at::cat({at::hypot(x, y), rows.narrow(-1, n_turning, rows.size(-1) - n_turning).abs()}, -1).sum(1);
  const at::Tensor own = at::bmm(rows.transpose(1, 2), rows);
  if (n == 0) {
    sum = rows.sum(1);
    moduli = lengths;
    products = own;
  } else {
    sum.add_(rows.sum(1));
    moduli.add_(lengths);
    products.add_(own);
  }
  n += queries.size(1);
}

TensorMoments TensorMoments::copy() const {
  if (n == 0) return {};
  return {n, sum.clone(), moduli.clone(), products.clone()};
}

TensorMoments TensorMoments::of_heads(int64_t first, int64_t n_heads, int64_t group) const {
  const auto grouped = [&](const at::Tensor& all) {
    return all.narrow(0, first * group, n_heads * group).unflatten(0, {n_heads, group});
  };
  return {n, grouped(sum), grouped(moduli), grouped(products)};
}

at::Tensor TensorMoments::mean() const { return sum.div(n); }

at::Tensor TensorMoments::mean_moduli() const { return moduli.div(n); }

at::Tensor TensorMoments::covariance() const {
  const at::Tensor mean = this->mean();
  return products.div(n) - mean.unsqueeze(-1) * mean.unsqueeze(-2);
}

}  // namespace keyscope::capture

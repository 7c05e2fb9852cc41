// Policies that look at queries, at ranges of other rows, or at a file of their own, as operations on
// tensors: what analysis/policies has under the same names.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "capture/inference/tensor_policy.hpp"

namespace keyscope::capture {
namespace {

using analysis::PolicySpec;
using std::int64_t;

constexpr std::uint64_t kMost = 1 << 16;

int64_t read_rows(const PolicySpec& spec, const char* key) {
  return static_cast<int64_t>(analysis::read_whole_number(spec, key, 0, kMost));
}

// (d, d) what the positions to come turn queries by, on the device.
at::Tensor future_rotation(const TensorPolicyInput& input) {
  return mean_rotation_matrix(*input.rotation, input.keys.size(2), input.end, analysis::kFuturePositions)
      .to(input.keys.device());
}

class Expected final : public TensorPolicy {
 public:
  explicit Expected(const PolicySpec& spec) : epsilon_(analysis::read_fraction(spec, "epsilon")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const at::Tensor keys = doubles(input.keys), turn = future_rotation(input);
    const auto d = static_cast<double>(keys.size(2));
    const at::Tensor means = at::matmul(input.moments.mean(), turn.t());
    const at::Tensor spreads = at::matmul(at::matmul(turn, input.moments.covariance()), turn.t());
    at::Tensor weights = at::zeros({input.n_heads(), input.n_rows()}, keys.options());
    for (int64_t query = 0; query < input.group_size; ++query) {  // a table of rows at a time
      const at::Tensor linear = at::bmm(keys, means.select(1, query).unsqueeze(2)).squeeze(2);
      const at::Tensor squares = (at::bmm(keys, spreads.select(1, query)) * keys).sum(2);
      weights += (linear / std::sqrt(d) + squares / (2 * d)).softmax(1);
    }
    return (weights / input.group_size + epsilon_) * doubles(input.values).norm(2, {2});
  }

 private:
  double epsilon_;
};

class CapKv final : public TensorPolicy {
 public:
  explicit CapKv(const PolicySpec& spec) : tau_(analysis::read_positive(spec, "tau")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const at::Tensor keys = doubles(input.keys), values = doubles(input.values);
    const at::Tensor means = at::matmul(input.moments.mean(), future_rotation(input).t());
    const at::Tensor lengths = keys.norm(2, {2}).unsqueeze(1) * means.norm(2, {2}, true);  // (h, G, n)
    const at::Tensor products = at::bmm(means, keys.transpose(1, 2));
    const at::Tensor weight = (quotient(products, lengths) * tau_).exp_();
    std::vector<at::Tensor> spanned;  // a table of rows at a time
    for (int64_t query = 0; query < input.group_size; ++query)
      spanned.push_back(at::bmm(values.transpose(1, 2), values * weight.select(1, query).unsqueeze(2)));
    const at::Tensor roots = inverse_roots(at::stack(spanned, 1) + at::eye(values.size(2), values.options()));
    at::Tensor sums = at::zeros({input.n_heads(), input.n_rows()}, keys.options());
    for (int64_t query = 0; query < input.group_size; ++query)
      sums += weight.select(1, query) * at::bmm(values, roots.select(1, query)).square_().sum(2);
    return sums / input.group_size;
  }

 private:
  double tau_;
};

// See analysis::TriAttention: pairs of coordinates as complex numbers, the mean over the offsets as one wave.
class TriAttention final : public TensorPolicy {
 public:
  explicit TriAttention(const analysis::Policy& policy)
      : by_mean_(policy.spec().options.at("group") == "mean"),
        calibrated_(policy.head_file() == analysis::HeadFile::kQueryMeans),
        file_(policy.file()) {}

  bool reads_positions() const override { return true; }
  at::Tensor score(const TensorPolicyInput& input) const override {
    const analysis::Rotation& rotation = *input.rotation;
    const at::Tensor keys = unrotated_keys(input.keys, input.positions, rotation);
    const int64_t n_turning = 2 * rotation.n_pairs(), n_still = keys.size(2) - n_turning;
    const auto [x, y] = turning_pairs(keys, rotation);
    const auto [cos, sin] = waves(input);
    const at::Tensor still = keys.narrow(2, n_turning, n_still);
    // q conj(k) w = q_x (k_x w_x + k_y w_y) + q_y (k_y w_x - k_x w_y), its real part.
    const at::Tensor seen =
        at::cat({x * cos + y * sin, y * cos - x * sin, still, at::hypot(x, y), still.abs()}, 2);
    const auto [mean, moduli] =
        calibrated_ ? means_of_file(input) : std::pair{input.moments.mean(), input.moments.mean_moduli()};
    const auto [q_x, q_y] = turning_pairs(mean, rotation);
    const at::Tensor q_still = mean.narrow(2, n_turning, n_still);
    const at::Tensor rest = moduli - at::cat({at::hypot(q_x, q_y), q_still.abs()}, 2);
    const at::Tensor asked = at::cat({q_x, q_y, q_still, rest}, 2);
    const at::Tensor scores = at::bmm(seen, asked.transpose(1, 2));  // (h, n, G)
    if (by_mean_) return scores.mean(2);
    return standardised_scores(scores).amax(2);
  }

 private:
  static constexpr int kOffsets = 17;  // 2^0 … 2^16

  // (h, G, d) and (h, G, what turns together and what does not turn): see analysis::TriAttention.
  std::pair<at::Tensor, at::Tensor> means_of_file(const TensorPolicyInput& input) const {
    const auto layer = static_cast<std::size_t>(input.layer);
    const int64_t h = input.n_heads(), d = input.keys.size(2), n = 2 * d - input.rotation->n_pairs();
    if (layer >= file_.size() || file_[layer].rows() < input.first_head + h || file_[layer].cols() == 0 ||
        file_[layer].cols() % n != 0)
      throw InvalidInput(fmt::format(
          "policy triattention: there are no means of {} and {} numbers for layer {}", d, n - d, layer));
    const int64_t width = file_[layer].cols();
    at::Tensor rows = at::empty({h, width / n, n}, at::TensorOptions().dtype(at::kFloat));
    std::copy_n(file_[layer].row(input.first_head).data(), h * width, rows.mutable_data_ptr<float>());
    const at::Tensor there = doubles(rows.to(input.keys.device()));
    return {there.narrow(2, 0, d), there.narrow(2, d, n - d)};
  }

  // (h, n, n_pairs) each: the mean over the offsets of e^{i (t + o - p) ω}.
  static std::pair<at::Tensor, at::Tensor> waves(const TensorPolicyInput& input) {
    const auto& frequencies = input.rotation->frequencies;
    const at::Tensor parts = at::zeros({3, std::ssize(frequencies)}, at::TensorOptions().dtype(at::kDouble));
    auto* part = parts.mutable_data_ptr<double>();
    for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
      part[pair] = frequencies[pair];
      for (int i = 0; i < kOffsets; ++i) {
        const double angle = std::ldexp(frequencies[pair], i);
        part[frequencies.size() + pair] += std::cos(angle) / kOffsets;
        part[2 * frequencies.size() + pair] += std::sin(angle) / kOffsets;
      }
    }
    const at::Tensor there = parts.to(input.keys.device());
    const at::Tensor last = input.positions.narrow(1, input.n_rows() - 1, 1);
    const at::Tensor angles = doubles(last - input.positions).unsqueeze(2) * there[0];
    const at::Tensor cos = angles.cos(), sin = angles.sin();
    return {there[1] * cos - there[2] * sin, there[1] * sin + there[2] * cos};
  }

  bool by_mean_, calibrated_;
  const std::vector<RowMatrixF>& file_;  // the policy's
};

class Compactor final : public TensorPolicy {
 public:
  explicit Compactor(const PolicySpec& spec)
      : blend_(spec.options.at("blend") == "budget" ? -1 : analysis::read_fraction(spec, "blend")),
        sketch_(read_rows(spec, "sketch")) {}

  bool reads_positions() const override { return true; }
  at::Tensor score(const TensorPolicyInput& input) const override {
    at::Tensor keys = unrotated_keys(input.keys, input.positions, *input.rotation);
    keys -= keys.mean(1, true);
    const double evicted =
        std::max(0.0, 1 - static_cast<double>(input.budget) / static_cast<double>(input.n_rows()));
    const at::Tensor geometry =
        sketch_ == 0 ? tensor_leverages(keys)
                     : tensor_leverages(at::bmm(keys, sketches(input)), analysis::kSketchRidge);
    return standardised_scores(geometry) * (blend_ < 0 ? evicted : blend_) +
           standardised_scores(weighed_attention(input));
  }

 private:
  // (h, d, sketch) the normal numbers of analysis::Compactor's sketch.
  at::Tensor sketches(const TensorPolicyInput& input) const {
    const int64_t d = input.keys.size(2);
    const at::Tensor counts = at::arange(2 * d * sketch_, input.keys.options().dtype(at::kLong)).unsqueeze(0);
    const at::Tensor draws =
        uniform_draws(analysis::kSketchSeed, input.layer, input.first_head, input.n_heads(), counts)
            .view({-1, d, sketch_, 2});
    const at::Tensor radius =
        (draws.select(3, 0).neg().log1p_() * (-2 / static_cast<double>(sketch_))).sqrt_();
    return radius * (draws.select(3, 1) * (2 * std::numbers::pi)).cos_();
  }

  static at::Tensor weighed_attention(const TensorPolicyInput& input) {
    constexpr int64_t kChunk = 256;
    const int64_t n = input.n_rows(), n_chunks = (n - 1) / kChunk + 1;
    const at::Tensor products =
        at::bmm(doubles(input.window_queries.flatten(1, 2)), doubles(input.keys).transpose(1, 2));
    const at::Tensor chunks =
        at::constant_pad_nd(products, {0, n_chunks * kChunk - n}, -std::numeric_limits<double>::infinity())
            .unflatten(2, {n_chunks, kChunk});
    const at::Tensor received = chunks.softmax(-1).sum(1).flatten(1).narrow(1, 0, n) *
                                doubles(input.values).norm(2, {2}) / input.group_size;
    at::Tensor pooled = received.clone();
    pooled.narrow(1, 0, n - 1).add_(received.narrow(1, 1, n - 1));
    pooled.narrow(1, 1, n - 1).add_(received.narrow(1, 0, n - 1));
    return pooled / 3;
  }

  double blend_;
  int64_t sketch_;
};

class Rkv final : public TensorPolicy {
 public:
  explicit Rkv(const PolicySpec& spec)
      : window_(read_rows(spec, "window")),
        kernel_(read_rows(spec, "kernel")),
        weight_(analysis::read_fraction(spec, "weight")),
        threshold_(analysis::read_fraction(spec, "threshold")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const at::Tensor attention = input.window_weights.flatten(1, 2).mean(1);
    // Neighbours beyond the ends are none: minus infinity.
    const at::Tensor pooled = at::max_pool1d(attention, kernel_, 1, kernel_ / 2);
    return pooled * weight_ - mean_similarity(input.keys).softmax(1) * (1 - weight_);
  }

  at::Tensor forced(const TensorPolicyInput& input) const override {
    return recent_rows(input, std::min(window_, input.n_new_rows));
  }

 private:
  // See analysis::Rkv: in every row's list its own cosine and the latest similar one count as 0.
  at::Tensor mean_similarity(const at::Tensor& keys) const {
    constexpr int64_t kTile = 256;
    const int64_t n = keys.size(1);
    const at::Tensor wide = doubles(keys);
    const at::Tensor unit = quotient(wide, wide.norm(2, {2}, true).expand_as(wide));
    const at::Tensor place = at::arange(1, n + 1, keys.options().dtype(at::kLong));
    at::Tensor sums = at::zeros({keys.size(0), n}, unit.options());
    for (int64_t first = 0; first < n; first += kTile) {
      const int64_t size = std::min(kTile, n - first);
      at::Tensor cosines = at::bmm(unit.narrow(1, first, size), unit.transpose(1, 2));
      cosines.diagonal(first, 1, 2).zero_();
      const at::Tensor latest = ((cosines > threshold_) * place).amax(2, true);  // 0: none is similar
      cosines.masked_fill_(place == latest, 0);
      sums += cosines.sum(1);
    }
    return sums / n;
  }

  int64_t window_, kernel_;
  double weight_, threshold_;
};

class DropKv final : public TensorPolicy {
 public:
  at::Tensor score(const TensorPolicyInput& input) const override {
    constexpr double kLeast = 1e-6;                                 // of 1 - p
    const at::Tensor weights = input.window_weights.flatten(1, 2);  // (h, G · w, n)
    const at::Tensor values = doubles(input.values);                // (h, n, d)
    const at::Tensor outputs = at::bmm(weights, values);            // (h, G · w, d)
    const at::Tensor products = at::bmm(outputs, values.transpose(1, 2));
    const at::Tensor squares =
        (values.square().sum(2).unsqueeze(1) - products * 2 + outputs.square().sum(2, true)).clamp_min_(0);
    const at::Tensor odds = weights / (1 - weights).clamp_min_(kLeast);
    return (odds.square_() * squares).sum(1) / input.group_size;
  }
};

class Defensive final : public TensorPolicy {
 public:
  explicit Defensive(const PolicySpec& spec) : kernel_(read_rows(spec, "kernel")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    at::Tensor weights = input.window_weights.flatten(1, 2);
    if (kernel_ > 1) weights = at::avg_pool2d(weights, {1, kernel_}, {1, 1}, {0, kernel_ / 2});
    const at::Tensor largest = weights.amax(1);
    return at::maximum(largest, largest.mean(1, true));
  }

 private:
  int64_t kernel_;
};

class LagKv final : public TensorPolicy {
 public:
  explicit LagKv(const PolicySpec& spec) : sinks_(read_rows(spec, "sinks")), lag_(read_rows(spec, "lag")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const int64_t n = input.n_rows(), parts = n_partitions(n);
    const auto options = input.keys.options().dtype(at::kDouble);
    at::Tensor scores = at::ones({input.n_heads(), n}, options);
    if (parts < 2) {
      if (n > sinks_)
        scores.narrow(1, sinks_, n - sinks_).copy_(at::arange(n - sinks_, options) / (n - sinks_));
      return scores;
    }
    const at::Tensor ranks = ranked(deviations(input.keys, parts) + deviations(input.values, parts));
    scores.narrow(1, sinks_, ranks.size(1)).copy_(ranks);
    return scores;
  }

  at::Tensor forced(const TensorPolicyInput& input) const override {
    const int64_t n = input.n_rows(), parts = n_partitions(n), n_first = std::min({sinks_, input.budget, n});
    const at::Tensor first = first_rows(input, sinks_);
    if (parts < 2) return first;
    const int64_t n_last = std::min(input.budget - n_first, n - (sinks_ + (parts - 1) * lag_));
    return first.logical_or(recent_rows(input, n_last));
  }

 private:
  int64_t n_partitions(int64_t n_rows) const { return std::max<int64_t>(0, n_rows - sinks_) / lag_; }

  // (h, parts - 1, lag): see analysis::LagKv.
  at::Tensor deviations(const at::Tensor& rows, int64_t parts) const {
    const at::Tensor all = doubles(rows.narrow(1, sinks_, parts * lag_)).unflatten(1, {parts, lag_});
    const at::Tensor own = all.narrow(1, 0, parts - 1), next = all.narrow(1, 1, parts - 1);
    const at::Tensor low = next.amin(2, true), range = next.amax(2, true) - low;
    const at::Tensor inverse = at::where(range == 0, at::zeros_like(range), range.reciprocal());
    const at::Tensor relative = (own - low) * inverse;
    const auto n_free = static_cast<double>(std::max<int64_t>(1, rows.size(2) - 1));
    return ((relative - relative.mean(3, true)).square_().sum(3) / n_free).sqrt_().softmax(2);
  }

  // Places within each partition as shares, of two equal ones the lower row the higher: (h, rows).
  at::Tensor ranked(const at::Tensor& values) const {
    constexpr std::optional<bool> kStable = true;
    const at::Tensor order = std::get<1>(at::sort(values.flip(2), kStable, 2));
    const at::Tensor shares = (at::arange(lag_, values.options()) / lag_).expand_as(values);
    return at::empty(values.sizes(), values.options()).scatter_(2, order, shares).flip(2).flatten(1);
  }

  int64_t sinks_, lag_;
};

// Of each layer (n_kv_heads, head_dim).
class QFilters final : public TensorPolicy {
 public:
  explicit QFilters(const analysis::Policy& policy) : filters_(policy.file()) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const auto layer = static_cast<std::size_t>(input.layer);
    const int64_t h = input.n_heads(), d = input.keys.size(2);
    if (layer >= filters_.size() || filters_[layer].rows() < input.first_head + h ||
        filters_[layer].cols() != d)
      throw InvalidInput(
          fmt::format("policy qfilters: there is no filter of {} numbers for layer {}", d, layer));
    at::Tensor filters = at::empty({h, d}, at::TensorOptions().dtype(at::kFloat));
    std::copy_n(filters_[layer].row(input.first_head).data(), h * d, filters.mutable_data_ptr<float>());
    return -at::bmm(doubles(input.keys), doubles(filters.to(input.keys.device())).unsqueeze(2)).squeeze(2);
  }

 private:
  const std::vector<RowMatrixF>& filters_;  // the policy's
};

template <typename T>
std::unique_ptr<const TensorPolicy> make_query_policy(const analysis::Policy& policy) {
  if constexpr (std::is_constructible_v<T, const analysis::Policy&>)
    return std::make_unique<const T>(policy);
  else if constexpr (std::is_constructible_v<T, const PolicySpec&>)
    return std::make_unique<const T>(policy.spec());
  else
    return std::make_unique<const T>();
}

}  // namespace

std::unique_ptr<const TensorPolicy> tensor_query_policy(const analysis::Policy& policy) {
  using Make = std::unique_ptr<const TensorPolicy> (*)(const analysis::Policy&);
  static const std::map<std::string, Make, std::less<>> kPolicies{
      {"lagkv", make_query_policy<LagKv>},         {"expected", make_query_policy<Expected>},
      {"capkv", make_query_policy<CapKv>},         {"triattention", make_query_policy<TriAttention>},
      {"compactor", make_query_policy<Compactor>}, {"rkv", make_query_policy<Rkv>},
      {"dropkv", make_query_policy<DropKv>},       {"defensive", make_query_policy<Defensive>},
      {"qfilters", make_query_policy<QFilters>}};
  const auto known = kPolicies.find(policy.spec().name);
  return known == kPolicies.end() ? nullptr : known->second(policy);
}

}  // namespace keyscope::capture

#include "capture/inference/tensor_policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "analysis/policies/registry.hpp"

namespace keyscope::capture {
namespace {

using analysis::PolicySpec;
using std::int64_t;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Products of two bytes' keys with float32 are exact enough in float32; of float32 keys in float64.
at::ScalarType product_dtype(const at::Tensor& keys) {
  return keys.scalar_type() == at::kFloat ? at::kDouble : at::kFloat;
}

std::uint64_t whole_number(const PolicySpec& spec, const char* key) {
  return analysis::read_whole_number(spec, key, 0, std::numeric_limits<std::uint64_t>::max());
}

class KeyDiff final : public TensorPolicy {
 public:
  explicit KeyDiff(const PolicySpec& spec)
      : anchor_(spec.options.at("anchor")),
        metric_(spec.options.at("metric")),
        recent_(analysis::read_fraction(spec, "recent")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const at::Tensor& keys = input.keys;
    if (metric_ == "cosine" && anchor_ == "mean") return score_by_mean(keys);
    const at::Tensor wide = doubles(keys), anchor = anchor_of(wide);
    if (metric_ == "euclidean") return (wide - anchor).norm(2, {2});
    const at::Tensor products = (wide * anchor).sum(2);
    if (metric_ == "dot") return -products;
    const at::Tensor norms = wide.norm(2, {2}) * anchor.norm(2, {2});
    if (anchor_ != "pairwise") return -quotient(products, norms);
    // Eq. 7 by the anchor: see analysis::KeyDiff.
    return -quotient(products * anchor.norm(2, {2}) * input.n_rows(), norms);
  }

  at::Tensor forced(const TensorPolicyInput& input) const override {
    const int64_t n = analysis::round_half_up(recent_, input.budget);
    return n > 0 ? recent_rows(input, n) : at::Tensor();
  }

 private:
  at::Tensor anchor_of(const at::Tensor& keys) const {
    if (anchor_ == "mean") return keys.mean(1, true);
    if (anchor_ == "median") {
      const at::Tensor sorted = std::get<0>(keys.sort(1));
      const int64_t n = keys.size(1);
      return (sorted.narrow(1, (n - 1) / 2, 1) + sorted.narrow(1, n / 2, 1)) / 2;
    }
    return quotient(keys, keys.norm(2, {2}, true).expand_as(keys)).mean(1, true);
  }

  // What every block of every run waits for: the keys are read as they lie. A key of norm zero scores 0.
  static at::Tensor score_by_mean(const at::Tensor& keys) {
    const at::ScalarType dtype = product_dtype(keys);
    const at::Tensor mean = keys.mean(1, true, dtype);
    const at::Tensor anchor = mean / mean.norm(2, {2}, true).clamp_min_(kLeast).neg_();
    const at::Tensor norms = keys.norm(2, {2}, false, dtype).clamp_min_(kLeast);
    return (keys * anchor).sum(2).div_(norms).to(at::kDouble);
  }

  static constexpr double kLeast = std::numeric_limits<float>::min();
  std::string anchor_, metric_;
  double recent_;
};

class Manifold final : public TensorPolicy {
 public:
  explicit Manifold(const PolicySpec& spec) : window_(static_cast<int64_t>(whole_number(spec, "window"))) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    const int64_t n = input.n_rows(), size = window_ == 0 ? n : window_, n_whole = n / size * size;
    const at::Tensor keys = doubles(input.keys);
    const at::Tensor windows = keys.narrow(1, 0, n_whole).unflatten(1, {n_whole / size, size});
    const at::Tensor scores = distances(windows).flatten(1);
    return n_whole == n ? scores : at::cat({scores, distances(keys.narrow(1, n_whole, n - n_whole))}, 1);
  }

 private:
  // Of rows (…, n, d) from their mean: (…, n).
  static at::Tensor distances(const at::Tensor& rows) { return (rows - rows.mean(-2, true)).norm(2, {-1}); }

  int64_t window_;
};

class L2Norm final : public TensorPolicy {
 public:
  at::Tensor score(const TensorPolicyInput& input) const override {
    return -five_digits(doubles(input.keys).norm(2, {2}));
  }

 private:
  // As analysis::L2Norm rounds.
  static at::Tensor five_digits(const at::Tensor& norms) {
    constexpr int kDigits = 5;
    const at::Tensor some = at::where(norms == 0, at::full({}, 1.0, norms.options()), norms);
    const at::Tensor exponent = some.log10().floor_().sub_(kDigits - 1);
    const at::Tensor unit = at::full({}, 10.0, norms.options()).pow(exponent.abs());
    return at::where(exponent < 0, (norms * unit).round_() / unit, (norms / unit).round_() * unit);
  }
};

class Leverage final : public TensorPolicy {
 public:
  at::Tensor score(const TensorPolicyInput& input) const override {
    return tensor_leverages(doubles(input.keys));
  }
};

class Cur final : public TensorPolicy {
 public:
  explicit Cur(const PolicySpec& spec)
      : window_(static_cast<int64_t>(whole_number(spec, "window"))),
        sinks_(static_cast<int64_t>(whole_number(spec, "sinks"))) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    return of_windows(doubles(input.keys).square_().sum(2)) *
           of_windows(doubles(input.values).square_().sum(2));
  }

  at::Tensor forced(const TensorPolicyInput& input) const override {
    return sinks_ == 0 ? at::Tensor() : first_rows(input, sinks_);
  }

 private:
  // As shares of the sums over windows of rows, the last of which may be short.
  at::Tensor of_windows(const at::Tensor& squares) const {
    if (window_ == 0) return squares;
    const int64_t n = squares.size(1), n_windows = (n - 1) / window_ + 1;
    const at::Tensor sums = at::constant_pad_nd(squares, {0, n_windows * window_ - n})
                                .view({-1, n_windows, window_})
                                .sum(2, true)
                                .expand({-1, -1, window_})
                                .reshape({-1, n_windows * window_})
                                .narrow(1, 0, n);
    return quotient(squares, sums);
  }

  int64_t window_, sinks_;
};

// See analysis::LogDet; a step takes a row of every head.
class LogDet final : public TensorPolicy {
 public:
  explicit LogDet(const PolicySpec& spec) : ridge_(analysis::read_positive(spec, "ridge")) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    constexpr double kTaken = -std::numeric_limits<double>::max();
    const at::Tensor keys = doubles(input.keys), squares = keys.square().sum(2);  // (h, n, d), (h, n)
    const at::Tensor mean_square = squares.mean(1, true) / keys.size(2);
    const at::Tensor lambda =
        at::where(mean_square == 0, at::full({}, 1.0, keys.options()), mean_square * ridge_);
    at::Tensor inverse = at::eye(keys.size(2), keys.options()) / lambda.unsqueeze(2);  // (h, d, d)
    at::Tensor rest = squares / lambda, scores = at::zeros_like(rest);
    at::Tensor ceiling = at::full({input.n_heads(), 1}, kInfinity, keys.options());
    for (int64_t taken = 0; taken < input.n_rows(); ++taken) {
      const auto [largest, best] = rest.max(1, true);
      const at::Tensor most = largest.clamp_min(0);
      ceiling = at::minimum(ceiling, most.log1p());
      scores.scatter_(1, best, ceiling);
      const at::Tensor key = keys.gather(1, best.unsqueeze(2).expand({-1, -1, keys.size(2)}));  // (h, 1, d)
      const at::Tensor u = at::bmm(inverse, key.transpose(1, 2)) / (most + 1).sqrt_().unsqueeze(2);
      inverse.sub_(u * u.transpose(1, 2));
      const at::Tensor is_taken = rest == kTaken;
      rest = (rest - at::bmm(keys, u).squeeze(2).square_()).clamp_min_(0).masked_fill_(is_taken, kTaken);
      rest.scatter_(1, best, kTaken);
    }
    return scores;
  }

 private:
  double ridge_;
};

class H2o final : public TensorPolicy {
 public:
  explicit H2o(const PolicySpec& spec)
      : recent_(analysis::read_fraction(spec, "recent")), normalize_(spec.options.at("normalize") == "1") {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    if (!normalize_) return input.attention_received;
    return input.attention_received / input.attention_queries.clamp_min(1);
  }

  at::Tensor forced(const TensorPolicyInput& input) const override {
    const int64_t n = analysis::round_half_up(recent_, input.budget);
    return n > 0 ? recent_rows(input, n) : at::Tensor();
  }

 private:
  double recent_;
  bool normalize_;
};

class Tova final : public TensorPolicy {
 public:
  explicit Tova(const PolicySpec& spec) : whole_layer_(spec.options.at("heads") == "all") {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    if (!whole_layer_) return doubles(input.last_row_group);
    return doubles(input.last_row_layer).expand({input.n_heads(), -1});
  }

 private:
  bool whole_layer_;
};

class SnapKv final : public TensorPolicy {
 public:
  explicit SnapKv(const PolicySpec& spec)
      : kernel_(static_cast<int64_t>(whole_number(spec, "kernel"))),
        recent_(static_cast<int64_t>(whole_number(spec, "recent"))) {}

  at::Tensor score(const TensorPolicyInput& input) const override {
    return at::avg_pool1d(doubles(input.window_sums), kernel_, 1, kernel_ / 2);
  }

  at::Tensor forced(const TensorPolicyInput& input) const override { return recent_rows(input, recent_); }

 private:
  int64_t kernel_, recent_;
};

class Sink final : public TensorPolicy {
 public:
  explicit Sink(const PolicySpec& spec)
      : first_(static_cast<int64_t>(whole_number(spec, spec.name == "duo" ? "sinks" : "first"))) {}

  bool reads_positions() const override { return true; }
  at::Tensor score(const TensorPolicyInput& input) const override { return doubles(input.positions); }

  at::Tensor forced(const TensorPolicyInput& input) const override {
    const at::Tensor row = at::arange(input.n_rows(), input.positions.options());
    return (input.positions < first_).logical_and_(row < input.budget);
  }

 private:
  int64_t first_;
};

class Random final : public TensorPolicy {
 public:
  explicit Random(const PolicySpec& spec) : seed_(whole_number(spec, "seed")) {}

  bool reads_positions() const override { return true; }
  at::Tensor score(const TensorPolicyInput& input) const override {
    return uniform_draws(seed_, input.layer, input.first_head, input.n_heads(), input.positions);
  }

 private:
  std::uint64_t seed_;
};

template <typename T>
std::unique_ptr<const TensorPolicy> make(const PolicySpec& spec) {
  if constexpr (std::is_constructible_v<T, const PolicySpec&>)
    return std::make_unique<const T>(spec);
  else
    return std::make_unique<const T>();
}

}  // namespace

at::Tensor first_rows(const TensorPolicyInput& input, int64_t n_first) {
  const int64_t n = input.n_rows(), end = std::min({n_first, input.budget, n});
  return (at::arange(n, input.keys.options().dtype(at::kLong)) < end).expand({input.n_heads(), n});
}

at::Tensor recent_rows(const TensorPolicyInput& input, int64_t n_recent) {
  const int64_t n = input.n_rows(), first = n - std::min({n_recent, input.budget, n});
  return (at::arange(n, input.keys.options().dtype(at::kLong)) >= first).expand({input.n_heads(), n});
}

std::unique_ptr<const TensorPolicy> tensor_policy(const analysis::Policy& policy) {
  using Make = std::unique_ptr<const TensorPolicy> (*)(const PolicySpec&);
  static const std::map<std::string, Make, std::less<>> kPolicies{
      {"keydiff", make<KeyDiff>},   {"manifold", make<Manifold>}, {"l2norm", make<L2Norm>},
      {"leverage", make<Leverage>}, {"cur", make<Cur>},           {"logdet", make<LogDet>},
      {"h2o", make<H2o>},           {"tova", make<Tova>},         {"snapkv", make<SnapKv>},
      {"sink", make<Sink>},         {"duo", make<Sink>},          {"random", make<Random>}};
  const auto known = kPolicies.find(policy.spec().name);
  return known == kPolicies.end() ? tensor_query_policy(policy) : known->second(policy.spec());
}

// A sort each to rank, and to have those that stay and those that go in order of time: both keep the order of
// equals.
TensorSelection::TensorSelection(const at::Tensor& scores, const at::Tensor& forced, int64_t budget,
                                 const SideStream& stream)
    : budget_(budget), scores_(scores) {
  constexpr std::optional<bool> kStable = true;
  const int64_t n_evicted = scores.size(1) - budget;
  const at::Tensor open = forced.defined() ? scores.masked_fill(forced, kInfinity) : scores;
  const auto [ranked, order] = at::sort(open, kStable, 1, true);
  const at::Tensor goes = at::zeros(scores.sizes(), scores.options().dtype(at::kByte))
                              .scatter_(1, order.narrow(1, budget, n_evicted), 1);
  const at::Tensor rows = std::get<1>(at::sort(goes, kStable, 1));
  retained_ = rows.narrow(1, 0, budget);
  const at::Tensor margins =
      ranked.narrow(1, budget - 1, 1) - scores.gather(1, rows.narrow(1, budget, n_evicted));
  told_ = HostCopy(
      at::cat({scores.sum(1, true).view(at::kInt), rows.to(at::kInt), margins.to(at::kFloat).view(at::kInt)},
              1),
      stream);
}

namespace {

// Says which score is not finite.
void refuse(const at::Tensor& scores, int64_t budget) {
  const at::Tensor here = scores.to(at::kCPU).contiguous();
  const std::span<const double> of_head(here.const_data_ptr<double>(),
                                        static_cast<std::size_t>(here.numel()));
  analysis::select_rows(of_head, std::vector<std::uint8_t>(of_head.size()), budget);
}

// Where all rows that stay were forced, the least of them is infinite, and there is no margin.
float margin_of(std::int32_t bits) {
  const float margin = std::bit_cast<float>(bits);
  return std::isinf(margin) ? std::numeric_limits<float>::quiet_NaN() : margin;
}

}  // namespace

const std::vector<analysis::Selection>& TensorSelection::on_host() {
  if (!here_.empty()) return here_;
  const at::Tensor told = told_.arrived();
  const int64_t n_evicted = scores_.size(1) - budget_;
  std::vector<analysis::Selection> selections;
  for (int64_t head = 0; head < told.size(0); ++head) {
    const std::int32_t* next = told.const_data_ptr<std::int32_t>() + head * told.size(1);
    double sum = 0;
    std::memcpy(&sum, next, sizeof sum);
    next += 2;
    if (!std::isfinite(sum)) refuse(scores_[head], budget_);
    analysis::Selection& selection = selections.emplace_back();
    selection.retained.assign(next, next + budget_);
    next += budget_;
    selection.evicted.assign(next, next + n_evicted);
    next += n_evicted;
    std::transform(next, next + n_evicted, std::back_inserter(selection.margin), margin_of);
  }
  scores_ = retained_ = at::Tensor();
  told_ = HostCopy();
  return here_ = std::move(selections);
}

}  // namespace keyscope::capture

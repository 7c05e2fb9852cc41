#include "analysis/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unsupported/Eigen/SpecialFunctions>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

void check_request(std::span<const double> samples, const BootstrapOptions& options) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!std::isfinite(samples[i]))
      throw InvalidInput(fmt::format("bootstrap: sample {} is {}; expected a finite number", i, samples[i]));
  if (options.n_resamples < 1)
    throw InvalidInput(fmt::format("bootstrap: {} resamples; expected at least 1", options.n_resamples));
  if (!(options.confidence > 0 && options.confidence < 1))
    throw InvalidInput(
        fmt::format("bootstrap: a confidence of {}; expected more than 0, less than 1", options.confidence));
}

// Adds to each sum the mean of a resample: of resample r, the draws from seed + r · stride on.
void add_resampled_means(std::span<const double> samples, std::uint64_t seed, std::uint64_t stride,
                         std::span<double> sums) {
  // Several at a time, as each waits for its last sum.
  constexpr std::size_t kAtOnce = 8;
  const auto n = static_cast<double>(samples.size());
  for (std::size_t first = 0; first < sums.size(); first += kAtOnce) {
    std::array<double, kAtOnce> drawn{};
    for (std::size_t i = 0; i < samples.size(); ++i)
      for (std::size_t r = 0; r < kAtOnce; ++r) {
        const std::uint64_t state = seed + (first + r) * stride + i * kSplitmixStep;
        drawn[r] += samples[static_cast<std::size_t>(unit_interval(splitmix(state)) * n)];
      }
    for (std::size_t r = 0; r < std::min(kAtOnce, sums.size() - first); ++r) sums[first + r] += drawn[r] / n;
  }
}

// The percentile interval that the means of the resamples give.
void set_ends(BootstrapMean& result, const std::vector<double>& means, double confidence) {
  const std::array<double, 2> tails{(1 - confidence) / 2, (1 + confidence) / 2};
  const auto ends = quantiles(means, tails);
  result.low = ends[0];
  result.high = ends[1];
}

}  // namespace

BootstrapMean bootstrap_mean(std::span<const double> samples, const BootstrapOptions& options) {
  check_request(samples, options);
  const auto n = static_cast<double>(samples.size());
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  BootstrapMean result{kUnknown, kUnknown, kUnknown, std::ssize(samples)};
  if (!samples.empty()) result.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  if (samples.size() < 2) return result;
  std::vector<double> means(options.n_resamples);
  add_resampled_means(samples, options.seed, samples.size() * kSplitmixStep, means);
  set_ends(result, means, options.confidence);
  return result;
}

namespace {

// The mean over strata of their means, of every resample; empty where one of the strata has no two samples.
std::vector<double> resampled_means(std::span<const std::vector<double>> strata,
                                    const BootstrapOptions& options) {
  if (options.n_resamples < 1)
    throw InvalidInput(fmt::format("bootstrap: {} resamples; expected at least 1", options.n_resamples));
  std::uint64_t n_samples = 0;
  for (const std::vector<double>& samples : strata) {
    if (samples.size() < 2) return {};
    n_samples += samples.size();
  }
  std::vector<double> means(options.n_resamples);
  std::uint64_t state = options.seed;
  for (const std::vector<double>& samples : strata) {
    add_resampled_means(samples, state, n_samples * kSplitmixStep, means);
    state += samples.size() * kSplitmixStep;
  }
  for (double& mean : means) mean /= static_cast<double>(strata.size());
  return means;
}

}  // namespace

BootstrapMean stratified_bootstrap_mean(std::span<const std::vector<double>> strata,
                                        const BootstrapOptions& options) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  BootstrapMean result{kUnknown, kUnknown, kUnknown, 0};
  double sum = 0;
  for (std::size_t i = 0; i < strata.size(); ++i) {
    if (strata[i].empty())
      throw InvalidInput(fmt::format("bootstrap: stratum {} has no samples; expected at least one", i));
    // Checks samples and options as well.
    sum += bootstrap_mean(strata[i], {1, options.confidence, options.seed}).mean;
    result.n_samples += std::ssize(strata[i]);
  }
  if (strata.empty()) return result;
  result.mean = sum / static_cast<double>(strata.size());
  if (const auto means = resampled_means(strata, options); !means.empty())
    set_ends(result, means, options.confidence);
  return result;
}

BootstrapMean stratified_bootstrap_ratio(std::span<const std::vector<double>> numerators,
                                         std::span<const std::vector<double>> denominators,
                                         const BootstrapOptions& options) {
  if (!std::ranges::equal(numerators, denominators, {}, &std::vector<double>::size,
                          &std::vector<double>::size))
    throw InvalidInput("bootstrap: numerators and denominators are not of the same samples");
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const BootstrapMean above = stratified_bootstrap_mean(numerators, {1, options.confidence, options.seed});
  const BootstrapMean below = stratified_bootstrap_mean(denominators, {1, options.confidence, options.seed});
  BootstrapMean result{kUnknown, kUnknown, kUnknown, above.n_samples};
  if (numerators.empty() || below.mean == 0) return result;
  result.mean = above.mean / below.mean;
  std::vector<double> ratios = resampled_means(numerators, options);
  const std::vector<double> divisors = resampled_means(denominators, options);
  if (ratios.empty() || std::ranges::find(divisors, 0.0) != divisors.end()) return result;
  std::ranges::transform(ratios, divisors, ratios.begin(), std::divides());
  set_ends(result, ratios, options.confidence);
  return result;
}

namespace {

constexpr double kQuantile = 1.959963984540054;  // of the normal distribution, at 0.975

}  // namespace

WilsonShare wilson_share(std::int64_t n_hits, std::int64_t n_trials) {
  if (n_hits < 0 || n_hits > n_trials)
    throw InvalidInput("Wilson interval: " + std::to_string(n_hits) + " hits of " + std::to_string(n_trials) +
                       " trials; expected 0 up to all of them");
  if (n_trials == 0) return {.share = std::numeric_limits<double>::quiet_NaN()};
  const auto n = static_cast<double>(n_trials);
  const double share = static_cast<double>(n_hits) / n, z2 = kQuantile * kQuantile;
  const double centre = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kQuantile / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  // Where none or all hit, an end is the share itself, but for a rounding.
  return {share, std::clamp(centre - half, 0.0, share), std::clamp(centre + half, share, 1.0)};
}

namespace {

// The probability that a variable of Beta(a, b) is below x.
double beta_probability(double a, double b, double x) { return Eigen::numext::betainc(a, b, x); }

}  // namespace

double clopper_pearson_high(double n_hits, double n_trials, double confidence) {
  if (!(n_trials > 0) || !(n_hits >= 0) || n_hits > n_trials || !(confidence > 0 && confidence < 1))
    throw InvalidInput("Clopper-Pearson interval: " + std::to_string(n_hits) + " hits of " +
                       std::to_string(n_trials) + " trials, confidence " + std::to_string(confidence) +
                       "; expected 0 up to all of them and a confidence between 0 and 1");
  if (n_hits == n_trials) return 1;
  const double wanted = (1 + confidence) / 2;
  double low = 0, high = 1;
  for (double middle = 0.5; middle > low && middle < high; middle = std::midpoint(low, high))
    (beta_probability(n_hits + 1, n_trials - n_hits, middle) < wanted ? low : high) = middle;
  return high;
}

MedianInterval median_interval(std::span<const double> samples, double confidence) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!std::isfinite(samples[i]))
      throw InvalidInput(fmt::format("median: sample {} is {}; expected a finite number", i, samples[i]));
  if (!(confidence > 0 && confidence < 1))
    throw InvalidInput(
        fmt::format("median: a confidence of {}; expected more than 0, less than 1", confidence));
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  MedianInterval result{kUnknown, kUnknown, kUnknown, 0, std::ssize(samples)};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  result.median = quantiles(sorted, std::array{0.5}).front();
  const auto n = static_cast<double>(sorted.size());
  for (std::size_t i = 0; 2 * i + 1 < sorted.size(); ++i) {
    // P(X <= i), X of Binomial(n, 1/2)
    const double below = beta_probability(n - static_cast<double>(i), static_cast<double>(i) + 1, 0.5);
    if (1 - 2 * below < confidence) break;
    result.low = sorted[i];
    result.high = sorted[sorted.size() - 1 - i];
    result.coverage = 1 - 2 * below;
  }
  return result;
}

std::vector<double> quantiles(std::span<const double> values, std::span<const double> probabilities) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i])) throw InvalidInput(fmt::format("quantiles: value {} is not a number", i));
  std::vector<double> ordered(values.begin(), values.end());
  std::vector<double> result;
  auto first = ordered.begin();  // what stands before it is no larger than what follows
  for (const double p : probabilities) {
    if (!(p >= 0 && p <= 1))
      throw InvalidInput(fmt::format("quantiles: a probability of {}; expected 0 to 1", p));
    if (ordered.empty()) {
      result.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double place = p * static_cast<double>(ordered.size() - 1);
    const auto at = ordered.begin() + static_cast<std::ptrdiff_t>(place);
    if (at < first) first = ordered.begin();
    std::nth_element(first, at, ordered.end());
    first = at;
    const double below = *at;
    const double above =
        std::ceil(place) == std::floor(place) ? below : *std::min_element(at + 1, ordered.end());
    // Equal ends first: the difference of two infinities is no number.
    result.push_back(below == above ? below : std::lerp(below, above, place - std::floor(place)));
  }
  return result;
}

Percentiles percentiles_of(std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  if (finite.empty()) return {};
  const auto at = quantiles(finite, std::array{0.05, 0.5, 0.95});
  return {at[0], at[1], at[2]};
}

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double checked_sum(std::span<const double> amounts) {
  for (std::size_t i = 0; i < amounts.size(); ++i)
    if (!std::isfinite(amounts[i]) || amounts[i] < 0)
      throw InvalidInput(
          fmt::format("concentration: amount {} is {}; expected a finite number from 0", i, amounts[i]));
  return std::accumulate(amounts.begin(), amounts.end(), 0.0);
}

}  // namespace

double gini(std::span<const double> amounts) {
  const double sum = checked_sum(amounts);
  if (sum == 0) return kNothing;
  std::vector<double> sorted(amounts.begin(), amounts.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  double weighted = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    weighted += (2 * static_cast<double>(i + 1) - n - 1) * sorted[i];
  return weighted / (n * sum);
}

double top_share(std::span<const double> amounts, double fraction) {
  if (!(fraction > 0 && fraction <= 1))
    throw InvalidInput(
        fmt::format("concentration: a fraction of {}; expected more than 0, at most 1", fraction));
  const double sum = checked_sum(amounts);
  if (sum == 0) return kNothing;
  std::vector<double> sorted(amounts.begin(), amounts.end());
  const auto n_top = static_cast<std::ptrdiff_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  std::nth_element(sorted.begin(), sorted.begin() + (n_top - 1), sorted.end(), std::greater<>());
  return std::accumulate(sorted.begin(), sorted.begin() + n_top, 0.0) / sum;
}

namespace {

using Eigen::ArrayXd;
using Eigen::Index;

struct Prediction {
  ArrayXd log_probabilities;
  Index top;
};

Prediction predict(const MatrixView& logits, Index row) {
  const ArrayXd wide = logits.row(row).cast<double>().transpose();
  Prediction prediction{{}, 0};
  double largest = -std::numeric_limits<double>::infinity();
  for (Index token = 0; token < wide.size(); ++token) {
    if (std::isnan(wide[token]) || wide[token] == std::numeric_limits<double>::infinity())
      throw InvalidInput(fmt::format("logits: row {}, token {} is {}", row, token, wide[token]));
    if (wide[token] > largest) {
      largest = wide[token];
      prediction.top = token;
    }
  }
  if (std::isinf(largest)) throw InvalidInput(fmt::format("logits: row {} has no finite value", row));
  prediction.log_probabilities = wide - largest;
  prediction.log_probabilities -= std::log(prediction.log_probabilities.exp().sum());
  return prediction;
}

}  // namespace

LogitDivergence logit_divergence(const MatrixView& reference, const MatrixView& other) {
  if (reference.rows() == 0 || reference.rows() != other.rows() || reference.cols() != other.cols())
    throw InvalidInput(fmt::format("logits: ({}, {}) against ({}, {}) cannot be compared", reference.rows(),
                                   reference.cols(), other.rows(), other.cols()));
  LogitDivergence divergence;
  for (Index row = 0; row < reference.rows(); ++row) {
    const Prediction p = predict(reference, row);
    const Prediction q = predict(other, row);
    for (Index token = 0; token < reference.cols(); ++token) {
      const double probability = std::exp(p.log_probabilities[token]);
      if (probability > 0)  // a token that cannot come adds nothing, whatever the other says of it
        divergence.kl_nats += probability * (p.log_probabilities[token] - q.log_probabilities[token]);
    }
    divergence.top1_agreement += p.top == q.top ? 1 : 0;
  }
  const auto n = static_cast<double>(reference.rows());
  divergence.kl_nats /= n;
  divergence.top1_agreement /= n;
  return divergence;
}

}  // namespace keyscope::analysis

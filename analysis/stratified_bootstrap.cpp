#include "analysis/stratified_bootstrap.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/quantiles.hpp"
#include "analysis/splitmix.hpp"

namespace keyscope::analysis {
namespace {

double resampled_mean(std::span<const double> samples, std::uint64_t& state) {
  const auto n = static_cast<double>(samples.size());
  double sum = 0;
  for (std::size_t i = 0; i < samples.size(); ++i, state += kSplitmixStep)
    sum += samples[static_cast<std::size_t>(unit_interval(splitmix(state)) * n)];
  return sum / n;
}

}  // namespace

BootstrapMean stratified_bootstrap_mean(std::span<const std::vector<double>> strata,
                                        const BootstrapOptions& options) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  BootstrapMean result{kNaN, kNaN, kNaN, 0};
  double sum = 0;
  for (std::size_t i = 0; i < strata.size(); ++i) {
    if (strata[i].empty())
      throw InvalidInput(fmt::format("bootstrap: stratum {} has no samples; expected at least one", i));
    // Checks samples and options as well.
    sum += bootstrap_mean(strata[i], {1, options.confidence, options.seed}).mean;
    result.n_samples += std::ssize(strata[i]);
  }
  if (strata.empty()) return result;
  const auto n_strata = static_cast<double>(strata.size());
  result.mean = sum / n_strata;
  if (std::ranges::any_of(strata, [](const auto& samples) { return samples.size() < 2; })) return result;
  if (options.n_resamples < 1)
    throw InvalidInput(fmt::format("bootstrap: {} resamples; expected at least 1", options.n_resamples));
  std::vector<double> means(static_cast<std::size_t>(options.n_resamples));
  std::uint64_t state = options.seed;
  for (double& mean : means) {
    double all = 0;
    for (const std::vector<double>& samples : strata) all += resampled_mean(samples, state);
    mean = all / n_strata;
  }
  const std::array<double, 2> tails{(1 - options.confidence) / 2, (1 + options.confidence) / 2};
  const auto ends = quantiles(means, tails);
  result.low = ends[0];
  result.high = ends[1];
  return result;
}

}  // namespace keyscope::analysis

#include "analysis/statistics.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/quantiles.hpp"
#include "analysis/splitmix.hpp"

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

}  // namespace

BootstrapMean bootstrap_mean(std::span<const double> samples, const BootstrapOptions& options) {
  check_request(samples, options);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(samples.size());
  BootstrapMean result{kNaN, kNaN, kNaN, std::ssize(samples)};
  if (!samples.empty()) result.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  if (samples.size() < 2) return result;
  std::vector<double> means(static_cast<std::size_t>(options.n_resamples));
  std::uint64_t state = options.seed;
  for (double& mean : means) {
    double sum = 0;
    for (std::size_t i = 0; i < samples.size(); ++i, state += kSplitmixStep)
      sum += samples[static_cast<std::size_t>(unit_interval(splitmix(state)) * n)];
    mean = sum / n;
  }
  const std::array<double, 2> tails{(1 - options.confidence) / 2, (1 + options.confidence) / 2};
  const auto ends = quantiles(means, tails);
  result.low = ends[0];
  result.high = ends[1];
  return result;
}

}  // namespace keyscope::analysis

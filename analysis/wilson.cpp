#include "analysis/wilson.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/errors.hpp"

namespace keyscope::analysis {
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

}  // namespace keyscope::analysis

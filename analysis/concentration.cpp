#include "analysis/concentration.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
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

}  // namespace keyscope::analysis

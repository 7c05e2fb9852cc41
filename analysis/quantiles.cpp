#include "analysis/quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {

std::vector<double> quantiles(std::span<const double> values, std::span<const double> probabilities) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i])) throw InvalidInput(fmt::format("quantiles: value {} is not a number", i));
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> result;
  for (const double p : probabilities) {
    if (!(p >= 0 && p <= 1))
      throw InvalidInput(fmt::format("quantiles: a probability of {}; expected 0 to 1", p));
    if (sorted.empty()) {
      result.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double place = p * static_cast<double>(sorted.size() - 1);
    const double below = sorted[static_cast<std::size_t>(place)];
    const double above = sorted[static_cast<std::size_t>(std::ceil(place))];
    // Equal ends first: the difference of two infinities is no number.
    result.push_back(below == above ? below : std::lerp(below, above, place - std::floor(place)));
  }
  return result;
}

}  // namespace keyscope::analysis

#include "analysis/rank_correlation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

std::vector<double> average_ranks(std::span<const double> values) {
  struct Entry {
    double value;
    std::uint32_t index;
  };
  std::vector<Entry> sorted(
      values.size());  // values move along with their places: sorting then stays in cache
  for (std::size_t i = 0; i < values.size(); ++i) sorted[i] = {values[i], static_cast<std::uint32_t>(i)};
  std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return a.value < b.value; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t end = first + 1;
    while (end < sorted.size() && sorted[end].value == sorted[first].value) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2;  // mean of first + 1 … end
    for (; first < end; ++first) ranks[sorted[first].index] = shared;
  }
  return ranks;
}

RankCorrelation spearman(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size())
    throw InvalidInput(fmt::format("rank correlation: {} values against {}", x.size(), y.size()));
  if (x.empty()) return {kNaN, CorrelationStatus::kEmpty};
  if (has_nan(x) || has_nan(y)) return {kNaN, CorrelationStatus::kNotANumber};
  const auto x_ranks = average_ranks(x);
  const auto y_ranks = average_ranks(y);
  // The mean of average ranks is (n + 1) / 2 whatever the ties; deviations are multiples of 1/2, so that sums
  // stay exact up to some 10^5 values.
  const double mean = static_cast<double>(x.size() + 1) / 2;
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x_ranks[i] - mean;
    const double dy = y_ranks[i] - mean;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return {kNaN, CorrelationStatus::kConstant};
  return {std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0), CorrelationStatus::kDefined};
}

}  // namespace keyscope::analysis

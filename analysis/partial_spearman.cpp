#include "analysis/partial_spearman.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>
#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::VectorXd;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Of an exact fit rounding leaves 1e-32 of the sum of squares; two neighbouring ranks exchanged leave 12/n³,
// which is more than this for every n below 10^7.
constexpr double kNothingLeft = 1e-24;

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

VectorXd centred_ranks(std::span<const double> values) {
  const auto ranks = average_ranks(values);
  const Eigen::Map<const VectorXd> mapped(ranks.data(), std::ssize(ranks));
  return mapped.array() - static_cast<double>(ranks.size() + 1) / 2;
}

// What of `ranks` is at right angles to `given`; zero where that is rounding alone. The residual itself is
// formed, because 1 - ρ² would lose the digits of ranks that nearly follow those of z.
VectorXd residual(const VectorXd& ranks, const VectorXd& given) {
  const double squared = given.squaredNorm();
  if (squared == 0) return ranks;
  VectorXd left = ranks - given * (ranks.dot(given) / squared);
  if (left.squaredNorm() <= kNothingLeft * ranks.squaredNorm()) return VectorXd::Zero(ranks.size());
  return left;
}

}  // namespace

RankCorrelation partial_spearman(std::span<const double> x, std::span<const double> y,
                                 std::span<const double> z) {
  if (x.size() != y.size() || x.size() != z.size())
    throw InvalidInput(
        fmt::format("partial rank correlation: {} values against {} given {}", x.size(), y.size(), z.size()));
  if (x.empty()) return {kNaN, CorrelationStatus::kEmpty};
  if (has_nan(x) || has_nan(y) || has_nan(z)) return {kNaN, CorrelationStatus::kNotANumber};
  const VectorXd given = centred_ranks(z);
  const VectorXd left_of_x = residual(centred_ranks(x), given);
  const VectorXd left_of_y = residual(centred_ranks(y), given);
  const double norms = left_of_x.norm() * left_of_y.norm();
  if (norms == 0) return {kNaN, CorrelationStatus::kConstant};
  return {std::clamp(left_of_x.dot(left_of_y) / norms, -1.0, 1.0), CorrelationStatus::kDefined};
}

}  // namespace keyscope::analysis

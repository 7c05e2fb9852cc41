#include "analysis/kruskal_wallis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

// Groups as indices into those that have a member, with how many they have.
struct Groups {
  std::vector<std::int32_t> of;  // (n_values)
  std::vector<double> sizes;     // (n_groups)
};

Groups number_groups(std::span<const std::int32_t> groups) {
  const auto [least, most] = std::ranges::minmax(groups);
  if (least < 0) throw InvalidInput(fmt::format("Kruskal-Wallis: group {}; expected none below 0", least));
  std::vector<std::int32_t> index(static_cast<std::size_t>(most) + 1, -1);
  Groups numbered;
  for (const std::int32_t group : groups) {
    if (index[group] < 0) {
      index[group] = static_cast<std::int32_t>(numbered.sizes.size());
      numbered.sizes.push_back(0);
    }
    numbered.of.push_back(index[group]);
    ++numbered.sizes[index[group]];
  }
  return numbered;
}

// Σ R_g² / n_g over the groups, R_g the sum of their ranks: what H depends on, given sizes and ties.
double between_groups(const std::vector<double>& ranks, const Groups& groups, std::vector<double>& sums) {
  std::ranges::fill(sums, 0.0);
  for (std::size_t i = 0; i < ranks.size(); ++i) sums[groups.of[i]] += ranks[i];
  double total = 0;
  for (std::size_t g = 0; g < sums.size(); ++g) total += sums[g] * sums[g] / groups.sizes[g];
  return total;
}

// 1 - Σ (t³ - t) / (n³ - n) over runs of t equal values; 0 where all are equal.
double tie_correction(std::vector<double> ranks) {
  std::ranges::sort(ranks);
  const auto n = static_cast<double>(ranks.size());
  double ties = 0;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t end = first + 1;
    while (end < ranks.size() && ranks[end] == ranks[first]) ++end;
    const auto t = static_cast<double>(end - first);
    ties += t * t * t - t;
    first = end;
  }
  return 1 - ties / (n * n * n - n);
}

double permutation_p(std::vector<double> ranks, const Groups& groups, double observed, int n_permutations,
                     std::uint64_t seed) {
  // Sums of half ranks are exact, their squares' quotients are not: equal ones must count.
  const double as_large = observed * (1 - 1e-12);
  std::vector<double> sums(groups.sizes.size());
  std::uint64_t state = seed;
  int n_as_large = 0;
  for (int permutation = 0; permutation < n_permutations; ++permutation) {
    for (std::size_t i = ranks.size() - 1; i > 0; --i, state += kSplitmixStep) {
      const auto j = static_cast<std::size_t>(unit_interval(splitmix(state)) * static_cast<double>(i + 1));
      std::swap(ranks[i], ranks[j]);
    }
    if (between_groups(ranks, groups, sums) >= as_large) ++n_as_large;
  }
  return (1.0 + n_as_large) / (1.0 + n_permutations);
}

}  // namespace

KruskalWallis kruskal_wallis(std::span<const double> values, std::span<const std::int32_t> groups,
                             int n_permutations, std::uint64_t seed) {
  if (values.size() != groups.size())
    throw InvalidInput(
        fmt::format("Kruskal-Wallis: {} values of {} groups' members", values.size(), groups.size()));
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  KruskalWallis result;
  result.statistic = result.epsilon_squared = result.p_value = kNaN;
  result.n = std::ssize(values);
  if (values.empty()) return result;
  const Groups numbered = number_groups(groups);
  result.n_groups = static_cast<int>(numbered.sizes.size());
  result.status = CorrelationStatus::kNotANumber;
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return result;
  const std::vector<double> ranks = average_ranks(values);
  const auto n = static_cast<double>(ranks.size());
  result.status = CorrelationStatus::kConstant;
  const double correction = ranks.size() > 1 ? tie_correction(ranks) : 0;
  if (result.n_groups < 2 || correction <= 0) return result;
  std::vector<double> sums(numbered.sizes.size());
  const double between = between_groups(ranks, numbered, sums);
  result.statistic = (12 / (n * (n + 1)) * between - 3 * (n + 1)) / correction;
  result.epsilon_squared = result.statistic / (n - 1);
  result.p_value = permutation_p(ranks, numbered, between, n_permutations, seed);
  result.status = CorrelationStatus::kDefined;
  return result;
}

}  // namespace keyscope::analysis

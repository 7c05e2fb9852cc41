#include "analysis/rank_overlap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::analysis {
namespace {

using Ranking = std::span<const std::int32_t>;

void require_distinct(Ranking ranking) {
  std::unordered_set<std::int32_t> seen;
  for (const auto item : ranking)
    if (!seen.insert(item).second)
      throw InvalidInput(fmt::format("rank-biased overlap: item {} stands twice in one ranking", item));
}

// X_d, the number of items that the first d entries of both lists share, for d = 1 … the longer length.
std::vector<double> shared_counts(Ranking shorter, Ranking longer) {
  std::unordered_set<std::int32_t> unmatched;
  std::vector<double> counts;
  double n_shared = 0;
  // An item is in both prefixes once it has come up for the second time.
  const auto meet = [&](std::int32_t item) { n_shared += unmatched.insert(item).second ? 0 : 1; };
  for (std::size_t i = 0; i < longer.size(); ++i) {
    meet(longer[i]);
    if (i < shorter.size()) meet(shorter[i]);
    counts.push_back(n_shared);
  }
  return counts;
}

}  // namespace

double rank_biased_overlap(Ranking a, Ranking b, double p) {
  if (!(p > 0 && p < 1))
    throw InvalidInput(fmt::format("rank-biased overlap: p is {}; expected more than 0, less than 1", p));
  require_distinct(a);
  require_distinct(b);
  if (a.empty() || b.empty()) return std::numeric_limits<double>::quiet_NaN();
  const Ranking shorter = a.size() <= b.size() ? a : b;
  const Ranking longer = a.size() <= b.size() ? b : a;
  const std::vector<double> shared = shared_counts(shorter, longer);
  const auto n_short = static_cast<double>(shorter.size());
  const auto n_long = static_cast<double>(longer.size());
  const double shared_short = shared[shorter.size() - 1];
  double sum = 0;
  double weight = 1;  // p^d
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const auto depth = static_cast<double>(i + 1);
    weight *= p;
    sum += shared[i] / depth * weight;
    // Past the end of the shorter list, the share of its missing entries that is expected to agree.
    if (depth > n_short) sum += shared_short * (depth - n_short) / (n_short * depth) * weight;
  }
  const double last_rate = (shared.back() - shared_short) / n_long + shared_short / n_short;
  return std::clamp((1 - p) / p * sum + last_rate * weight, 0.0, 1.0);
}

}  // namespace keyscope::analysis

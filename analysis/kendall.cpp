#include "analysis/kendall.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Pair {
  double x;
  double y;
  bool operator==(const Pair&) const = default;
};

std::int64_t pairs_among(std::ptrdiff_t n) { return static_cast<std::int64_t>(n) * (n - 1) / 2; }

// Pairs of entries that `alike` holds equal; such entries stand side by side.
template <typename Alike>
std::int64_t tied_pairs(const std::vector<Pair>& sorted, const Alike& alike) {
  std::int64_t n_tied = 0;
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto end = std::find_if_not(first, sorted.end(), [&](const Pair& p) { return alike(*first, p); });
    n_tied += pairs_among(end - first);
    first = end;
  }
  return n_tied;
}

// Sorts by y and returns how many pairs stood the wrong way round: merge sort, counting, for every entry
// taken from the right half, those of the left half that it overtakes.
std::int64_t sort_and_count(std::span<Pair> pairs, std::span<Pair> merged) {
  if (pairs.size() < 2) return 0;
  const std::size_t half = pairs.size() / 2;
  std::int64_t n_swaps = sort_and_count(pairs.first(half), merged.first(half)) +
                         sort_and_count(pairs.subspan(half), merged.subspan(half));
  std::size_t left = 0;
  std::size_t right = half;
  for (Pair& next : merged) {
    const bool from_left = right == pairs.size() || (left < half && pairs[left].y <= pairs[right].y);
    if (!from_left) n_swaps += static_cast<std::int64_t>(half - left);
    next = pairs[from_left ? left++ : right++];
  }
  std::copy(merged.begin(), merged.end(), pairs.begin());
  return n_swaps;
}

}  // namespace

KendallCorrelation kendall(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size())
    throw InvalidInput(fmt::format("rank correlation: {} values against {}", x.size(), y.size()));
  if (x.empty()) return {kNaN, CorrelationStatus::kEmpty};
  std::vector<Pair> pairs(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i])) return {kNaN, CorrelationStatus::kNotANumber};
    pairs[i] = {x[i], y[i]};
  }
  std::sort(pairs.begin(), pairs.end(),
            [](const Pair& a, const Pair& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  const std::int64_t n_pairs = pairs_among(std::ssize(pairs));
  const std::int64_t n_tied_x = tied_pairs(pairs, [](const Pair& a, const Pair& b) { return a.x == b.x; });
  const std::int64_t n_tied_both = tied_pairs(pairs, std::equal_to<>());
  std::vector<Pair> merged(pairs.size());
  const std::int64_t n_discordant = sort_and_count(pairs, merged);
  const std::int64_t n_tied_y = tied_pairs(pairs, [](const Pair& a, const Pair& b) { return a.y == b.y; });
  if (n_tied_x == n_pairs || n_tied_y == n_pairs) return {kNaN, CorrelationStatus::kConstant};
  const std::int64_t n_concordant = n_pairs - n_tied_x - n_tied_y + n_tied_both - n_discordant;
  // Two roots, not the root of a product: that may be beyond what 64 bits hold.
  const double tau = static_cast<double>(n_concordant - n_discordant) /
                     std::sqrt(static_cast<double>(n_pairs - n_tied_x)) /
                     std::sqrt(static_cast<double>(n_pairs - n_tied_y));
  return {std::clamp(tau, -1.0, 1.0), CorrelationStatus::kDefined};
}

}  // namespace keyscope::analysis

#include "analysis/rank_correlation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

// A value as a whole number of the same order, and its place; moved along together, they stay in cache.
struct Entry {
  std::uint64_t order;
  std::uint32_t index;
};

// The bits of a double order as those of a whole number do once the negative ones are turned round.
std::uint64_t order_of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);  // -0 + 0 is 0: the zeros are equal
  return bits >> 63 != 0 ? ~bits : bits | std::uint64_t{1} << 63;
}

constexpr int kDigitBits = 11;
constexpr int kPasses =
    3;  // over the leading 33 bits: among some thousand values these tell almost all apart
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

std::size_t digit_of(std::uint64_t order, int pass) {
  return order >> (64 - kDigitBits * (kPasses - pass)) & (kDigits - 1);
}

// One pass of a radix sort by counting: stable, so that later passes keep what earlier ones ordered.
void sort_by_digit(const std::vector<Entry>& from, std::vector<Entry>& to, int pass) {
  std::array<std::uint32_t, kDigits> place{};
  for (const Entry& entry : from) ++place[digit_of(entry.order, pass)];
  std::uint32_t n_before = 0;
  for (std::uint32_t& count : place) n_before += std::exchange(count, n_before);
  for (const Entry& entry : from) to[place[digit_of(entry.order, pass)]++] = entry;
}

// Comparing sorts mispredict every other branch on values in no order; counting digits has none. What the
// leading bits leave undecided are short runs, in which the comparing sort takes over.
std::vector<Entry> sort_by_value(std::span<const double> values) {
  std::vector<Entry> entries(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    entries[i] = {order_of(values[i]), static_cast<std::uint32_t>(i)};
  std::vector<Entry> moved(values.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    sort_by_digit(entries, moved, pass);
    entries.swap(moved);
  }
  const auto leading = [](const Entry& entry) { return entry.order >> (64 - kDigitBits * kPasses); };
  for (auto first = entries.begin(); first != entries.end();) {
    auto end = first + 1;
    while (end != entries.end() && leading(*end) == leading(*first)) ++end;
    if (end - first > 1)
      std::sort(first, end, [](const Entry& a, const Entry& b) { return a.order < b.order; });
    first = end;
  }
  return entries;
}

}  // namespace

std::vector<double> average_ranks(std::span<const double> values) {
  const std::vector<Entry> sorted = sort_by_value(values);
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t end = first + 1;
    while (end < sorted.size() && sorted[end].order == sorted[first].order) ++end;
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

namespace {

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

namespace {

using Eigen::VectorXd;

// Of an exact fit rounding leaves 1e-32 of the sum of squares; two neighbouring ranks exchanged leave 12/n³,
// which is more than this for every n below 10^7.
constexpr double kNothingLeft = 1e-24;

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

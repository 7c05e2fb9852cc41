#include "analysis/rank_correlation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
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
  const auto ascending = [](const Entry& a, const Entry& b) { return a.order < b.order; };
  if (std::is_sorted(entries.begin(), entries.end(), ascending)) return entries;  // as token positions are
  std::vector<Entry> moved(values.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    sort_by_digit(entries, moved, pass);
    entries.swap(moved);
  }
  const auto leading = [](const Entry& entry) { return entry.order >> (64 - kDigitBits * kPasses); };
  for (auto first = entries.begin(); first != entries.end();) {
    auto end = first + 1;
    while (end != entries.end() && leading(*end) == leading(*first)) ++end;
    if (end - first > 1) std::sort(first, end, ascending);
    first = end;
  }
  return entries;
}

std::vector<double> ranks_of(const std::vector<Entry>& sorted) {
  std::vector<double> ranks(sorted.size());
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t end = first + 1;
    while (end < sorted.size() && sorted[end].order == sorted[first].order) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2;  // mean of first + 1 … end
    for (; first < end; ++first) ranks[sorted[first].index] = shared;
  }
  return ranks;
}

void require_one_size(const Ranked& x, const Ranked& y) {
  if (x.size() != y.size())
    throw InvalidInput(fmt::format("rank correlation: {} values against {}", x.size(), y.size()));
}

}  // namespace

std::vector<double> average_ranks(std::span<const double> values) { return ranks_of(sort_by_value(values)); }

Ranked::Ranked(std::span<const double> values) : order_(values.size()), has_nan_(analysis::has_nan(values)) {
  const std::vector<Entry> sorted = sort_by_value(values);
  ranks_ = ranks_of(sorted);
  std::ranges::transform(sorted, order_.begin(), &Entry::index);
}

RankCorrelation spearman(const Ranked& x, const Ranked& y) {
  require_one_size(x, y);
  if (x.size() == 0) return {kNaN, CorrelationStatus::kEmpty};
  if (x.has_nan() || y.has_nan()) return {kNaN, CorrelationStatus::kNotANumber};
  // The mean of average ranks is (n + 1) / 2 whatever the ties; deviations are multiples of 1/2, so that sums
  // stay exact up to some 10^5 values.
  const double mean = static_cast<double>(x.size() + 1) / 2;
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x.ranks()[i] - mean;
    const double dy = y.ranks()[i] - mean;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return {kNaN, CorrelationStatus::kConstant};
  return {std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0), CorrelationStatus::kDefined};
}

RankCorrelation spearman(std::span<const double> x, std::span<const double> y) {
  return spearman(Ranked(x), Ranked(y));
}

namespace {

std::int64_t pairs_among(std::size_t n) {
  return static_cast<std::int64_t>(n) * (static_cast<std::int64_t>(n) - 1) / 2;
}

// Twice the rank, a whole number.
std::uint64_t twice(double rank) { return static_cast<std::uint64_t>(2 * rank); }

// Pairs of equal ones among numbers of which equal ones stand side by side.
std::int64_t tied_pairs(std::span<const std::uint64_t> numbers) {
  std::int64_t n_tied = 0;
  for (std::size_t first = 0, end = 0; first < numbers.size(); first = end) {
    while (end < numbers.size() && numbers[end] == numbers[first]) ++end;
    n_tied += pairs_among(end - first);
  }
  return n_tied;
}

// Sorts, and returns how many pairs stood the wrong way round: merge sort, counting, for every number taken
// from the right half, those of the left half that it overtakes.
std::int64_t sort_and_count(std::span<std::uint64_t> numbers, std::span<std::uint64_t> merged) {
  if (numbers.size() < 2) return 0;
  const std::size_t half = numbers.size() / 2;
  std::int64_t n_swaps = sort_and_count(numbers.first(half), merged.first(half)) +
                         sort_and_count(numbers.subspan(half), merged.subspan(half));
  std::size_t left = 0;
  std::size_t right = half;
  std::size_t next = 0;
  while (left < half && right < numbers.size()) {  // without a branch on what is random
    const std::uint64_t a = numbers[left], b = numbers[right];
    const bool from_right = b < a;
    merged[next++] = from_right ? b : a;
    n_swaps += from_right ? static_cast<std::int64_t>(half - left) : 0;
    left += from_right ? 0U : 1U;
    right += from_right ? 1U : 0U;
  }
  std::copy(numbers.begin() + static_cast<std::ptrdiff_t>(left),
            numbers.begin() + static_cast<std::ptrdiff_t>(half),
            merged.begin() + static_cast<std::ptrdiff_t>(next));
  const auto n_merged =
      static_cast<std::ptrdiff_t>(next + (half - left));  // the rest stands where it belongs
  std::copy(merged.begin(), merged.begin() + n_merged, numbers.begin());
  return n_swaps;
}

}  // namespace

KendallCorrelation kendall(const Ranked& x, const Ranked& y) {
  require_one_size(x, y);
  if (x.size() == 0) return {kNaN, CorrelationStatus::kEmpty};
  if (x.has_nan() || y.has_nan()) return {kNaN, CorrelationStatus::kNotANumber};
  // The ranks of y in the order of x; among those of one x ascending.
  std::vector<std::uint64_t> sorted(x.size());
  std::ranges::transform(x.order(), sorted.begin(),
                         [&](std::uint32_t place) { return twice(y.ranks()[place]); });
  std::int64_t n_tied_x = 0;
  std::int64_t n_tied_both = 0;
  for (std::size_t first = 0, end = 0; first < sorted.size(); first = end) {
    const double rank = x.ranks()[x.order()[first]];
    while (end < sorted.size() && x.ranks()[x.order()[end]] == rank) ++end;
    if (end - first == 1) continue;
    const std::span<std::uint64_t> equal = std::span(sorted).subspan(first, end - first);
    std::ranges::sort(equal);
    n_tied_x += pairs_among(equal.size());
    n_tied_both += tied_pairs(equal);
  }
  std::vector<std::uint64_t> merged(sorted.size());
  const std::int64_t n_discordant = sort_and_count(sorted, merged);
  const std::int64_t n_tied_y = tied_pairs(sorted);
  const std::int64_t n_pairs = pairs_among(sorted.size());
  if (n_tied_x == n_pairs || n_tied_y == n_pairs) return {kNaN, CorrelationStatus::kConstant};
  const std::int64_t n_concordant = n_pairs - n_tied_x - n_tied_y + n_tied_both - n_discordant;
  // Two roots, not the root of a product: that may be beyond what 64 bits hold.
  const double tau = static_cast<double>(n_concordant - n_discordant) /
                     std::sqrt(static_cast<double>(n_pairs - n_tied_x)) /
                     std::sqrt(static_cast<double>(n_pairs - n_tied_y));
  return {std::clamp(tau, -1.0, 1.0), CorrelationStatus::kDefined};
}

KendallCorrelation kendall(std::span<const double> x, std::span<const double> y) {
  return kendall(Ranked(x), Ranked(y));
}

namespace {

using Eigen::VectorXd;

// Of an exact fit rounding leaves 1e-32 of the sum of squares; two neighbouring ranks exchanged leave 12/n³,
// which is more than this for every n below 10^7.
constexpr double kNothingLeft = 1e-24;

VectorXd centred_ranks(const Ranked& values) {
  const Eigen::Map<const VectorXd> mapped(values.ranks().data(), std::ssize(values.ranks()));
  return mapped.array() - static_cast<double>(values.size() + 1) / 2;
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

RankCorrelation partial_spearman(const Ranked& x, const Ranked& y, const Ranked& z) {
  if (x.size() != y.size() || x.size() != z.size())
    throw InvalidInput(
        fmt::format("partial rank correlation: {} values against {} given {}", x.size(), y.size(), z.size()));
  if (x.size() == 0) return {kNaN, CorrelationStatus::kEmpty};
  if (x.has_nan() || y.has_nan() || z.has_nan()) return {kNaN, CorrelationStatus::kNotANumber};
  const VectorXd given = centred_ranks(z);
  const VectorXd left_of_x = residual(centred_ranks(x), given);
  const VectorXd left_of_y = residual(centred_ranks(y), given);
  const double norms = left_of_x.norm() * left_of_y.norm();
  if (norms == 0) return {kNaN, CorrelationStatus::kConstant};
  return {std::clamp(left_of_x.dot(left_of_y) / norms, -1.0, 1.0), CorrelationStatus::kDefined};
}

RankCorrelation partial_spearman(std::span<const double> x, std::span<const double> y,
                                 std::span<const double> z) {
  return partial_spearman(Ranked(x), Ranked(y), Ranked(z));
}

}  // namespace keyscope::analysis

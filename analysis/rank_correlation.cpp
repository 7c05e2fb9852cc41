#include "analysis/rank_correlation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

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

}  // namespace keyscope::analysis

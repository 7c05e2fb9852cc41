#include "analysis/sign_flips.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

constexpr std::size_t kSignsOfDraw = 64;
// Sums of the same numbers in flipped order differ by roundings; those are ties.
constexpr double kTie = 1e-9;

// Where the signs of a set's examples lie among a resample's.
struct SignPlace {
  std::size_t n_examples = 0;
  std::size_t first = 0;
};

std::map<std::size_t, SignPlace> sign_places(std::span<const PairedComparison> comparisons) {
  std::map<std::size_t, SignPlace> places;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const auto& [set, differences] = comparisons[i];
    const auto [place, is_new] = places.try_emplace(set, SignPlace{differences.size(), 0});
    if (place->second.n_examples != differences.size())
      throw InvalidInput(fmt::format("sign flips: comparison {} has {} examples and another of its set {}", i,
                                     differences.size(), place->second.n_examples));
    for (const double difference : differences)
      if (!std::isfinite(difference))
        throw InvalidInput(fmt::format(
            "sign flips: comparison {} has a difference of {}; expected finite ones", i, difference));
  }
  std::size_t first = 0;
  for (auto& [set, place] : places) {
    place.first = first;
    first += place.n_examples;
  }
  return places;
}

double length_of(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Signs of resample r: those of draws from seed + r · stride on, a bit each.
void draw_signs(std::uint64_t state, std::span<double> signs) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < signs.size(); ++i) {
    if (i % kSignsOfDraw == 0) bits = splitmix(state + i / kSignsOfDraw * kSplitmixStep);
    signs[i] = (bits >> (i % kSignsOfDraw) & 1U) != 0 ? 1 : -1;
  }
}

}  // namespace

std::vector<SignFlipTest> sign_flip_tests(std::span<const PairedComparison> comparisons,
                                          const SignFlipOptions& options) {
  if (options.n_resamples < 1)
    throw InvalidInput(fmt::format("sign flips: {} resamples; expected at least 1", options.n_resamples));
  const auto places = sign_places(comparisons);
  std::vector<double> lengths, found;
  for (const PairedComparison& comparison : comparisons) {
    const auto& values = comparison.differences;
    lengths.push_back(length_of(values));
    const double sum = std::abs(std::accumulate(values.begin(), values.end(), 0.0));
    found.push_back(lengths.back() > 0 ? sum / lengths.back() : 0);
  }
  std::vector<std::size_t> order(comparisons.size());  // the largest statistic first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return found[a] > found[b]; });

  std::size_t n_signs = 0;
  for (const auto& [set, place] : places) n_signs += place.n_examples;
  std::vector<double> signs(n_signs);
  const std::uint64_t stride = (n_signs + kSignsOfDraw - 1) / kSignsOfDraw * kSplitmixStep;
  std::vector<std::int64_t> alone(comparisons.size()), among(comparisons.size());
  for (std::int64_t r = 0; r < options.n_resamples; ++r) {
    draw_signs(options.seed + static_cast<std::uint64_t>(r) * stride, signs);
    double largest = 0;  // of those that are not before it
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const auto& [set, values] = comparisons[*at];
      const double sum = std::inner_product(values.begin(), values.end(), &signs[places.at(set).first], 0.0);
      const double flipped = lengths[*at] > 0 ? std::abs(sum) / lengths[*at] : 0;
      largest = std::max(largest, flipped);
      const double least = found[*at] * (1 - kTie);
      alone[*at] += flipped >= least ? 1 : 0;
      among[*at] += largest >= least ? 1 : 0;
    }
  }
  std::vector<SignFlipTest> tests(comparisons.size());
  const auto n = static_cast<double>(options.n_resamples + 1);
  double before = 0;
  for (const std::size_t at : order) {
    before = std::max(before, static_cast<double>(among[at] + 1) / n);
    tests[at] = {static_cast<double>(alone[at] + 1) / n, before};
  }
  return tests;
}

}  // namespace keyscope::analysis

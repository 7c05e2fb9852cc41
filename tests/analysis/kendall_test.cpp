#include "analysis/kendall.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Values = std::vector<double>;

// τ-b by its definition: every pair looked at.
double count_all_pairs(const Values& x, const Values& y) {
  double concordant = 0, discordant = 0, only_x = 0, only_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool tied_x = x[i] == x[j];
      const bool tied_y = y[i] == y[j];
      if (!tied_x && !tied_y) ((x[i] < x[j]) == (y[i] < y[j]) ? concordant : discordant) += 1;
      if (tied_x && !tied_y) only_x += 1;
      if (tied_y && !tied_x) only_y += 1;
    }
  const double untied = concordant + discordant;
  return (concordant - discordant) / std::sqrt((untied + only_x) * (untied + only_y));
}

Values sample_levels(std::uint64_t seed, std::size_t n, double levels) {
  Values values = sample_uniform(seed, n);
  for (double& value : values) value = std::floor(value * levels);
  return values;
}

TEST(Kendall, MatchesSciPy) {
  for (const auto& golden : read_goldens("ranking_goldens.json", "kendall")) {
    const auto n = golden["n"].get<std::size_t>();
    const auto seed = golden["seed"].get<std::uint64_t>();
    const Values x = sample_levels(seed, n, golden["levels"].get<double>());
    Values y = sample_levels(seed + 100, n, golden["levels"].get<double>());
    for (std::size_t i = 0; i < n; ++i) y[i] += std::floor(x[i] / 3);
    EXPECT_NEAR(kendall(x, y).tau, golden["tau"].get<double>(), 1e-12) << golden.dump();
  }
}

TEST(Kendall, WorkedByHand) {
  // Of six pairs five agree and (3, 4) does not.
  EXPECT_NEAR(kendall(Values{1, 2, 3, 4}, Values{1, 2, 4, 3}).tau, 4.0 / 6, 1e-15);
  // Pairs: (1,2) and (1,3) agree, (2,3) is tied in y: 2 / √(3 · 2).
  EXPECT_NEAR(kendall(Values{1, 2, 3}, Values{1, 2, 2}).tau, 2 / std::sqrt(6), 1e-15);
}

TEST(Kendall, EqualsTheCountOverAllPairs) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::size_t n = 2 + static_cast<std::size_t>(seed);
    const double levels = seed % 3 == 0 ? 3 : 40;
    const Values x = sample_levels(seed, n, levels);
    const Values y = sample_levels(seed + 900, n, levels);
    const KendallCorrelation found = kendall(x, y);
    if (found.status == CorrelationStatus::kConstant) {
      EXPECT_FALSE(std::isfinite(count_all_pairs(x, y))) << "seed " << seed;
    } else {
      EXPECT_NEAR(found.tau, count_all_pairs(x, y), 1e-14) << "seed " << seed;
    }
  }
}

TEST(Kendall, SeesOnlyOrder) {
  const Values x = sample_uniform(1, 101);
  const Values y = sample_uniform(2, 101);
  Values grown = x;
  std::transform(x.begin(), x.end(), grown.begin(), [](double v) { return std::exp(20 * v); });
  Values negated = y;
  std::transform(y.begin(), y.end(), negated.begin(), std::negate<>());
  const double tau = kendall(x, y).tau;
  EXPECT_EQ(kendall(grown, y).tau, tau);
  EXPECT_EQ(kendall(x, negated).tau, -tau);
  EXPECT_EQ(kendall(y, x).tau, tau);
  EXPECT_NEAR(kendall(x, x).tau, 1, 1e-15);
  const Values x_reversed(x.rbegin(), x.rend());
  const Values y_reversed(y.rbegin(), y.rend());
  EXPECT_EQ(kendall(x_reversed, y_reversed).tau, tau) << "pairs in another order are the same pairs";
}

TEST(Kendall, WhatHasNoValueSaysWhy) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto expect_none = [](const Values& x, const Values& y, CorrelationStatus status) {
    EXPECT_TRUE(std::isnan(kendall(x, y).tau));
    EXPECT_EQ(kendall(x, y).status, status);
  };
  expect_none({}, {}, CorrelationStatus::kEmpty);
  expect_none({1}, {2}, CorrelationStatus::kConstant);
  expect_none({1, 2, 3}, {4, 4, 4}, CorrelationStatus::kConstant);
  expect_none({1, kNaN, 3}, {1, 2, 3}, CorrelationStatus::kNotANumber);
  expect_none({1, 2, 3}, {1, kNaN, 3}, CorrelationStatus::kNotANumber);
  EXPECT_NEAR(kendall(Values{-kInf, 0, kInf}, Values{1, 2, 3}).tau, 1, 1e-15);
  EXPECT_NEAR(kendall(Values{-0.0, 0.0, 1}, Values{1, 1, 2}).tau, 1, 1e-15) << "the zeros are tied";
  EXPECT_THROW(kendall(Values{1, 2}, Values{1}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

#include "analysis/rank_correlation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Values = std::vector<double>;

TEST(RankCorrelation, TiesShareTheirMeanRank) {
  EXPECT_EQ(average_ranks(Values{5, 6, 7, 8, 7}), (Values{1, 2, 3.5, 5, 3.5}));
  EXPECT_EQ(average_ranks(Values{2, 2, 2}), (Values{2, 2, 2}));
  EXPECT_EQ(average_ranks(Values{-0.0, 0.0, -1}), (Values{2.5, 2.5, 1}));
}

TEST(RankCorrelation, RanksAreCountsOfWhatIsBelow) {
  // All magnitudes and both signs; values that differ in their last bits alone; few levels; subnormals.
  const std::size_t n = 700;
  const Values numbers = sample_uniform(5, 2 * n);
  const auto expect_counted = [](const Values& values) {
    const Values ranks = average_ranks(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto below = std::count_if(values.begin(), values.end(), [&](double v) { return v < values[i]; });
      const auto equal = std::count(values.begin(), values.end(), values[i]);
      ASSERT_EQ(ranks[i], static_cast<double>(2 * below + equal + 1) / 2) << "of " << values[i];
    }
  };
  Values wide, close, levels, tiny;
  for (std::size_t i = 0; i < n; ++i) {
    const double sign = numbers[i] < 0.5 ? -1 : 1;
    wide.push_back(sign * std::exp2(2000 * numbers[n + i] - 1000));
    close.push_back(sign * (1 + std::floor(200 * numbers[n + i]) * 0x1p-52));
    levels.push_back(std::floor(9 * numbers[n + i]) - 4);
    tiny.push_back(sign * std::floor(50 * numbers[n + i]) * 0x1p-1074);
  }
  for (const Values& values : {wide, close, levels, tiny}) expect_counted(values);
}

TEST(RankCorrelation, ReferenceValue) {
  EXPECT_NEAR(spearman(Values{1, 2, 3, 4, 5}, Values{5, 6, 7, 8, 7}).rho, 0.82078268166812329, 1e-15);
}

TEST(RankCorrelation, MatchesSciPy) {
  for (const auto& golden : read_goldens("analysis_goldens.json", "spearman")) {
    const auto n = golden["n"].get<std::size_t>();
    const auto seed = golden["seed"].get<std::uint64_t>();
    Values x = sample_uniform(seed, n);
    Values y = sample_uniform(seed + 100, n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = std::floor(x[i] * golden["levels"].get<double>());
      y[i] = std::floor(y[i] * golden["levels"].get<double>()) + std::floor(x[i] / 3);
    }
    EXPECT_NEAR(spearman(x, y).rho, golden["rho"].get<double>(), 1e-12) << golden.dump();
  }
}

TEST(RankCorrelation, SeesOnlyOrder) {
  const Values x = sample_uniform(1, 100);
  const Values y = sample_uniform(2, 100);
  Values grown = x;
  std::transform(x.begin(), x.end(), grown.begin(), [](double v) { return std::exp(20 * v); });
  Values negated = y;
  std::transform(y.begin(), y.end(), negated.begin(), std::negate());
  const double rho = spearman(x, y).rho;
  EXPECT_EQ(spearman(grown, y).rho, rho);
  EXPECT_NEAR(spearman(x, negated).rho, -rho, 1e-15);
  EXPECT_EQ(spearman(y, x).rho, rho);
  EXPECT_EQ(spearman(x, x).rho, 1);
}

TEST(RankCorrelation, WhatHasNoValueSaysWhy) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto expect_none = [](const Values& x, const Values& y, CorrelationStatus status) {
    EXPECT_TRUE(std::isnan(spearman(x, y).rho));
    EXPECT_EQ(spearman(x, y).status, status);
  };
  expect_none({}, {}, CorrelationStatus::kEmpty);
  expect_none({1}, {2}, CorrelationStatus::kConstant);
  expect_none({1, 2, 3}, {4, 4, 4}, CorrelationStatus::kConstant);
  expect_none({1, kNaN, 3}, {1, 2, 3}, CorrelationStatus::kNotANumber);
  EXPECT_EQ(spearman(Values{-kInf, 0, kInf}, Values{1, 2, 3}).rho, 1);
  EXPECT_THROW(spearman(Values{1, 2}, Values{1}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

#include "analysis/rank_correlation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

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
    EXPECT_NEAR(kendall(x, y).tau, golden["tau"].get<double>(), 1e-12) << json_text(golden);
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
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect_none = [](const Values& x, const Values& y, CorrelationStatus status) {
    EXPECT_TRUE(std::isnan(kendall(x, y).tau));
    EXPECT_EQ(kendall(x, y).status, status);
  };
  expect_none({}, {}, CorrelationStatus::kEmpty);
  expect_none({1}, {2}, CorrelationStatus::kConstant);
  expect_none({1, 2, 3}, {4, 4, 4}, CorrelationStatus::kConstant);
  expect_none({1, nan, 3}, {1, 2, 3}, CorrelationStatus::kNotANumber);
  expect_none({1, 2, 3}, {1, nan, 3}, CorrelationStatus::kNotANumber);
  EXPECT_NEAR(kendall(Values{-inf, 0, inf}, Values{1, 2, 3}).tau, 1, 1e-15);
  EXPECT_NEAR(kendall(Values{-0.0, 0.0, 1}, Values{1, 1, 2}).tau, 1, 1e-15) << "the zeros are tied";
  EXPECT_THROW(kendall(Values{1, 2}, Values{1}), InvalidInput);
}

Values positions(std::size_t n) {
  Values values(n);
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

TEST(PartialSpearman, MatchesResidualsOfRanksInNumPy) {
  for (const auto& golden : read_goldens("ranking_goldens.json", "partial_spearman")) {
    const auto n = golden["n"].get<std::size_t>();
    const auto seed = golden["seed"].get<std::uint64_t>();
    const Values z = positions(n);
    Values x = sample_uniform(seed, n);
    Values y = sample_uniform(seed + 100, n);
    for (std::size_t i = 0; i < n; ++i) {
      const double drift = golden["drift"].get<double>() * z[i] / static_cast<double>(n);
      x[i] = std::floor((x[i] + drift) * golden["levels"].get<double>());
      y[i] = std::floor((y[i] + drift) * golden["levels"].get<double>());
    }
    EXPECT_NEAR(partial_spearman(x, y, z).rho, golden["rho"].get<double>(), 1e-11) << json_text(golden);
  }
}

TEST(PartialSpearman, WorkedByHand) {
  // ρxy = 0.8, ρxz = 0.4, ρyz = 0.8: (0.8 - 0.32) / √(0.84 · 0.36).
  const Values x{1, 2, 3, 4}, y{2, 1, 3, 4}, z{3, 1, 2, 4};
  EXPECT_NEAR(spearman(x, y).rho, 0.8, 1e-15);
  EXPECT_NEAR(spearman(x, z).rho, 0.4, 1e-15);
  EXPECT_NEAR(spearman(y, z).rho, 0.8, 1e-15);
  EXPECT_NEAR(partial_spearman(x, y, z).rho, 0.48 / std::sqrt(0.84 * 0.36), 1e-14);
}

TEST(PartialSpearman, EqualsTheFormulaOfThreeCorrelations) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Values x = sample_uniform(seed, 80), y = sample_uniform(seed + 50, 80), z = positions(80);
    const double xy = spearman(x, y).rho, xz = spearman(x, z).rho, yz = spearman(y, z).rho;
    const double expected = (xy - xz * yz) / std::sqrt((1 - xz * xz) * (1 - yz * yz));
    EXPECT_NEAR(partial_spearman(x, y, z).rho, expected, 1e-12);
  }
}

TEST(PartialSpearman, SeesOnlyOrderAndNoDirectionOfTheThird) {
  const Values x = sample_uniform(1, 60), y = sample_uniform(2, 60), z = sample_uniform(3, 60);
  const double rho = partial_spearman(x, y, z).rho;
  Values grown = x, falling = z;
  for (double& value : grown) value = std::exp(9 * value);
  for (double& value : falling) value = -value;
  EXPECT_EQ(partial_spearman(grown, y, z).rho, rho);
  EXPECT_NEAR(partial_spearman(x, y, falling).rho, rho, 1e-14);
  EXPECT_NEAR(partial_spearman(y, x, z).rho, rho, 1e-14);
  EXPECT_NEAR(partial_spearman(x, y, Values(60, 2.0)).rho, spearman(x, y).rho, 1e-15)
      << "a constant explains nothing";
}

TEST(PartialSpearman, TellsAnExactFitFromOneExchangedPair) {
  const std::size_t n = 4096;
  const Values z = positions(n);
  Values x = z;
  EXPECT_EQ(partial_spearman(x, sample_uniform(1, n), z).status, CorrelationStatus::kConstant);
  std::swap(x[1000], x[1001]);
  EXPECT_EQ(partial_spearman(x, sample_uniform(1, n), z).status, CorrelationStatus::kDefined);
  EXPECT_NEAR(partial_spearman(x, x, z).rho, 1, 1e-15);
}

TEST(PartialSpearman, WhatHasNoValueSaysWhy) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto expect_none = [](const Values& x, const Values& y, const Values& z, CorrelationStatus status) {
    EXPECT_TRUE(std::isnan(partial_spearman(x, y, z).rho));
    EXPECT_EQ(partial_spearman(x, y, z).status, status);
  };
  const Values up{1, 2, 3, 4}, mixed{2, 4, 1, 3};
  expect_none({}, {}, {}, CorrelationStatus::kEmpty);
  expect_none({1}, {1}, {1}, CorrelationStatus::kConstant);
  expect_none({1, 2}, {2, 1}, {1, 2}, CorrelationStatus::kConstant);
  expect_none(up, Values(4, 1.0), mixed, CorrelationStatus::kConstant);
  expect_none({10, 20, 30, 40}, mixed, up, CorrelationStatus::kConstant);
  expect_none(up, mixed, {1, 2, nan, 4}, CorrelationStatus::kNotANumber);
  expect_none({nan, 2, 3, 4}, mixed, up, CorrelationStatus::kNotANumber);
  EXPECT_EQ(partial_spearman(Values{-inf, 1, 2, inf}, mixed, Values{1, 3, 2, 4}).rho,
            partial_spearman(up, mixed, Values{1, 3, 2, 4}).rho);
  EXPECT_THROW(partial_spearman(up, up, Values{1}), InvalidInput);
  EXPECT_THROW(partial_spearman(up, Values{1}, up), InvalidInput);
}

TEST(RankCorrelation, TiesShareTheirMeanRank) {
  EXPECT_EQ(average_ranks(Values{5, 6, 7, 8, 7}), (Values{1, 2, 3.5, 5, 3.5}));
  EXPECT_EQ(average_ranks(Values{2, 2, 2}), (Values{2, 2, 2}));
  EXPECT_EQ(average_ranks(Values{-0.0, 0.0, -1}), (Values{2.5, 2.5, 1}));
}

// Sorting by leading digits leaves them to a comparison, a run of equal digits at a time.
TEST(RankCorrelation, ValuesThatDifferInTheirLastBitsHaveRanksOfTheirOwn) {
  for (const double step : {0x1p-24, 0x1p-36, 0x1p-52}) {
    constexpr int kValues = 101;
    Values values(kValues), ranks(kValues);
    for (int i = 0; i < kValues; ++i) {
      const int place = i * 37 % kValues;  // in no order
      values[i] = 1 + place * step;
      ranks[i] = place + 1;
    }
    EXPECT_EQ(average_ranks(values), ranks) << step;
  }
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

TEST(RankCorrelation, RankedOnceGoesIntoEveryCorrelation) {
  const Values x = sample_levels(3, 200, 20), y = sample_levels(4, 200, 9);  // ties in each and in both
  Values places(200);
  std::iota(places.begin(), places.end(), 0.0);
  const Ranked ranked_x(x), ranked_y(y), ranked_places(places);
  std::vector<std::uint32_t> order = ranked_x.order();
  EXPECT_TRUE(std::ranges::is_sorted(order, {}, [&](std::uint32_t place) { return x[place]; }));
  std::ranges::sort(order);
  EXPECT_TRUE(std::ranges::equal(order, places)) << "every place once";
  EXPECT_NEAR(kendall(ranked_x, ranked_y).tau, count_all_pairs(x, y), 1e-14);
  EXPECT_NEAR(kendall(ranked_y, ranked_x).tau, count_all_pairs(x, y), 1e-14);
  const double xy = spearman(x, y).rho, xz = spearman(x, places).rho, yz = spearman(y, places).rho;
  EXPECT_EQ(spearman(ranked_x, ranked_y).rho, xy);
  EXPECT_NEAR(partial_spearman(ranked_x, ranked_y, ranked_places).rho,
              (xy - xz * yz) / std::sqrt((1 - xz * xz) * (1 - yz * yz)), 1e-12);
  EXPECT_TRUE(Ranked(Values{1, std::numeric_limits<double>::quiet_NaN()}).has_nan());
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
    EXPECT_NEAR(spearman(x, y).rho, golden["rho"].get<double>(), 1e-12) << json_text(golden);
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
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect_none = [](const Values& x, const Values& y, CorrelationStatus status) {
    EXPECT_TRUE(std::isnan(spearman(x, y).rho));
    EXPECT_EQ(spearman(x, y).status, status);
  };
  expect_none({}, {}, CorrelationStatus::kEmpty);
  expect_none({1}, {2}, CorrelationStatus::kConstant);
  expect_none({1, 2, 3}, {4, 4, 4}, CorrelationStatus::kConstant);
  expect_none({1, nan, 3}, {1, 2, 3}, CorrelationStatus::kNotANumber);
  EXPECT_EQ(spearman(Values{-inf, 0, inf}, Values{1, 2, 3}).rho, 1);
  EXPECT_THROW(spearman(Values{1, 2}, Values{1}), InvalidInput);
}

}  // namespace

}  // namespace keyscope::analysis

#include "analysis/sign_flips.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Comparisons = std::vector<PairedComparison>;

double statistic(const std::vector<double>& values, std::uint64_t flips) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += (flips >> i & 1U) != 0 ? -values[i] : values[i];
    squares += values[i] * values[i];
  }
  return squares == 0 ? 0 : std::abs(sum) / std::sqrt(squares);
}

// Every flip of examples that all comparisons share, counted; step-down as its definition reads.
std::vector<SignFlipTest> exact_tests(const Comparisons& comparisons, std::size_t n_examples) {
  std::vector<SignFlipTest> tests(comparisons.size(), {0, 0});
  const auto found = [&](std::size_t k) { return statistic(comparisons[k].differences, 0); };
  const std::uint64_t n_flips = std::uint64_t{1} << n_examples;
  for (std::uint64_t flips = 0; flips < n_flips; ++flips)
    for (std::size_t k = 0; k < comparisons.size(); ++k) {
      double largest = 0;
      for (std::size_t j = 0; j < comparisons.size(); ++j)
        if (found(j) <= found(k)) largest = std::max(largest, statistic(comparisons[j].differences, flips));
      const double share = 1 / static_cast<double>(n_flips);
      if (statistic(comparisons[k].differences, flips) >= found(k) - 1e-9) tests[k].p += share;
      if (largest >= found(k) - 1e-9) tests[k].adjusted_p += share;
    }
  std::vector<SignFlipTest> raised = tests;
  for (std::size_t k = 0; k < tests.size(); ++k)
    for (std::size_t j = 0; j < tests.size(); ++j)
      if (found(j) >= found(k)) raised[k].adjusted_p = std::max(raised[k].adjusted_p, tests[j].adjusted_p);
  return raised;
}

double draw(std::uint64_t& state) { return unit_interval(splitmix(state += kSplitmixStep)); }

TEST(SignFlips, AreThoseOfEveryFlipCounted) {
  const Comparisons comparisons{{0, {1, 1, 1, 0, 1, 1, -1, 1, 0, 1}},
                                {0, {0.5, -0.25, 1, 0, 0.75, 1, 0.5, 1, -0.5, 1}},
                                {0, {0, 1, -1, 0, 0, 1, 0, -1, 0, 0}},
                                {0, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}}};
  const auto exact = exact_tests(comparisons, 10);
  const auto tests = sign_flip_tests(comparisons, {.n_resamples = 40'000, .seed = 3});
  ASSERT_EQ(tests.size(), 4U);
  for (std::size_t k = 0; k < tests.size(); ++k) {
    EXPECT_NEAR(tests[k].p, exact[k].p, 0.008) << k;
    EXPECT_NEAR(tests[k].adjusted_p, exact[k].adjusted_p, 0.008) << k;
    EXPECT_GE(tests[k].adjusted_p, tests[k].p) << k;
  }
  EXPECT_NEAR(exact[3].p, 2.0 / 1024, 1e-12) << "ten differences of one sign: all or none flipped";
}

TEST(SignFlips, OneComparisonNeedsNoAdjustment) {
  const auto tests = sign_flip_tests(Comparisons{{7, {1, 0, 1, 1, -1, 1, 1}}});
  EXPECT_EQ(tests.front().p, tests.front().adjusted_p);
}

TEST(SignFlips, WhereNothingDiffersPIsOne) {
  const auto tests = sign_flip_tests(Comparisons{{0, {0, 0, 0}}, {1, {}}, {2, {1, 1, 1, 1, 1, 1, 1, 1}}});
  EXPECT_EQ(tests[0].adjusted_p, 1);
  EXPECT_EQ(tests[1].adjusted_p, 1);
  EXPECT_LT(tests[2].adjusted_p, 0.02);
}

// A comparison that is there twenty times tells no more and no less than once: Holm's procedure, which takes
// them for independent, would multiply its p by twenty.
TEST(SignFlips, KnowsThatComparisonsGoTogether) {
  const std::vector<double> differences{1, 1, 1, 0, 1, 1, 1, -1, 1, 1, 0, 1};
  const auto once = sign_flip_tests(Comparisons{{0, differences}});
  const auto often = sign_flip_tests(Comparisons(20, {0, differences}));
  for (const SignFlipTest& test : often) EXPECT_EQ(test.adjusted_p, once.front().p);
}

// Twelve policies against one base in three tasks, none of them better: at 5 % one experiment in twenty may
// claim any difference at all. Without the adjustment most do.
TEST(SignFlips, ClaimsSeldomWhereNothingDiffers) {
  std::uint64_t state = 11;
  constexpr int kExperiments = 400;
  int n_claimed = 0, n_alone = 0;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    Comparisons comparisons;
    for (std::size_t task = 0; task < 3; ++task) {
      std::vector<double> base(25), difficulty(25);
      for (double& share : difficulty) share = draw(state);
      const auto answer = [&](std::size_t i) { return draw(state) < difficulty[i] ? 1.0 : 0.0; };
      for (std::size_t i = 0; i < base.size(); ++i) base[i] = answer(i);
      for (int policy = 0; policy < 12; ++policy) {
        auto& differences = comparisons.emplace_back(PairedComparison{task, {}}).differences;
        for (std::size_t i = 0; i < base.size(); ++i) differences.push_back(answer(i) - base[i]);
      }
    }
    const auto tests = sign_flip_tests(comparisons, {.n_resamples = 400, .seed = state});
    const auto claims = [&](double SignFlipTest::*p) {
      return std::ranges::any_of(tests, [&](const SignFlipTest& test) { return test.*p < 0.05; });
    };
    n_claimed += claims(&SignFlipTest::adjusted_p) ? 1 : 0;
    n_alone += claims(&SignFlipTest::p) ? 1 : 0;
  }
  // 5 % of 400 is 20, with a standard deviation of 4.4.
  EXPECT_LE(n_claimed, 34);
  EXPECT_GE(n_claimed, 4) << "so seldom that it would find nothing either";
  EXPECT_GE(n_alone, kExperiments / 4);
}

TEST(SignFlips, FindsWhatDiffersAmongManyThatDoNot) {
  std::uint64_t state = 5;
  Comparisons comparisons;
  for (std::size_t k = 0; k < 30; ++k) {
    auto& differences = comparisons.emplace_back().differences;
    for (int i = 0; i < 40; ++i) {
      const double with = draw(state) < (k < 2 ? 0.9 : 0.4) ? 1 : 0;
      differences.push_back(with - (draw(state) < 0.4 ? 1 : 0));
    }
  }
  const auto tests = sign_flip_tests(comparisons);
  EXPECT_LT(tests[0].adjusted_p, 0.05);
  EXPECT_LT(tests[1].adjusted_p, 0.05);
  EXPECT_EQ(std::ranges::count_if(tests, [](const auto& test) { return test.adjusted_p < 0.05; }), 2);
}

TEST(SignFlips, RefusesWhatCannotBeCompared) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(sign_flip_tests(Comparisons{{0, {1, nan}}}), InvalidInput);
  EXPECT_THROW(sign_flip_tests(Comparisons{{0, {1, 2}}, {0, {1}}}), InvalidInput);
  EXPECT_THROW(sign_flip_tests(Comparisons{{0, {1, 2}}}, {.n_resamples = 0}), InvalidInput);
  EXPECT_TRUE(sign_flip_tests(Comparisons{}).empty());
}

}  // namespace
}  // namespace keyscope::analysis

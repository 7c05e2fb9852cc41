#include "app/benchmarks/paired_ratio.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"

namespace keyscope::benchmarks {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RoundTimes rounds(std::vector<double> times, std::optional<double> load = 1, int processors = 2) {
  return {std::move(times), {load, processors}};
}

TEST(PairedRatio, OfSteadyRoundsIsAFigure) {
  const PairedRatio ratio =
      paired_ratio(rounds({150, 153, 149, 151, 148, 152}), rounds({100, 101, 99, 102, 100, 98}));
  EXPECT_THAT(ratio.doubt, IsEmpty());
  EXPECT_LE(ratio.low, 1.5);
  EXPECT_GE(ratio.high, 1.5);
  EXPECT_LT(ratio.high / ratio.low, 1.06);
  EXPECT_EQ(ratio.n_rounds, 6);
  EXPECT_EQ(ratio_text(ratio), "1.50 [1.48, 1.55]");
  EXPECT_EQ(excess_text(ratio), "50.3 [48.0, 55.1]");
}

// What a report on a loaded machine once gave as a figure: 15.93 times to the first token, where the full
// cache's own repetitions took 74 to 1,832 ms.
TEST(PairedRatio, OfABaselineThatDiffersFromItselfCannotBeTold) {
  const PairedRatio ratio =
      paired_ratio(rounds({1200, 1310, 900, 1180, 1500, 1250}), rounds({74, 80, 1832, 75, 90, 78}));
  EXPECT_THAT(ratio.doubt,
              HasSubstr("times of one and the same work differ by a factor of 24.8, more than 4"));
  EXPECT_EQ(ratio_text(ratio), "cannot be told");
  EXPECT_FALSE(ratio_json(ratio)["told"]);
  EXPECT_EQ(ratio_json(ratio)["doubt"], ratio.doubt);
  EXPECT_GT(ratio_json(ratio)["ratio"], 10) << "the number is kept, for those who look at rounds themselves";
}

// Both sides become three times slower together: each alone would say little, the pairs say much.
TEST(PairedRatio, ACommonDriftLeavesANarrowInterval) {
  const std::vector<double> baseline{100, 140, 180, 220, 260, 300, 340};
  std::vector<double> times;
  for (std::size_t i = 0; i < baseline.size(); ++i) times.push_back(baseline[i] * (i % 2 == 0 ? 1.19 : 1.21));
  const PairedRatio ratio = paired_ratio(rounds(times), rounds(baseline));
  EXPECT_THAT(ratio.doubt, IsEmpty());
  EXPECT_LE(ratio.low, 1.2);
  EXPECT_GE(ratio.high, 1.2);
  EXPECT_LT(ratio.high - ratio.low, 0.03);
}

TEST(PairedRatio, NeedsRounds) {
  const PairedRatio ratio =
      paired_ratio(rounds({150, 150, 150, 150, 150}), rounds({100, 100, 100, 100, 100}));
  EXPECT_EQ(ratio.doubt, "5 rounds, of which at least 6 are needed");
  EXPECT_EQ(ratio.ratio, 1.5);
  EXPECT_TRUE(std::isnan(ratio.low) && std::isnan(ratio.high));
  EXPECT_TRUE(ratio_json(ratio)["low"].is_null());
  EXPECT_EQ(paired_ratio(rounds({}), rounds({})).doubt, "0 rounds, of which at least 6 are needed");
}

TEST(PairedRatio, NeedsAProcessorToItself) {
  const std::vector<double> times(8, 150), baseline(8, 100);
  EXPECT_TRUE(paired_ratio(rounds(times, 2.5), rounds(baseline, 2.5)).told());
  EXPECT_EQ(paired_ratio(rounds(times, 2.51), rounds(baseline, 1)).doubt,
            "the load average was 2.51 with 2 processors");
  EXPECT_FALSE(paired_ratio(rounds(times, 1), rounds(baseline, 3)).told());
  EXPECT_TRUE(paired_ratio(rounds(times, 3, 16), rounds(baseline, 3, 16)).told());
  EXPECT_TRUE(paired_ratio(rounds(times, {}), rounds(baseline, {})).told()) << "processor time has no load";
}

TEST(PairedRatio, NeedsRoundsThatAgree) {
  const PairedRatio ratio =
      paired_ratio(rounds({100, 210, 100, 200, 110, 190}), rounds({100, 100, 100, 100, 100, 100}));
  EXPECT_EQ(ratio.doubt, "its interval [1, 2.1] spans a factor of more than 2");
}

TEST(PairedRatio, OfTheBaselineItselfIsOne) {
  EXPECT_EQ(ratio_text(unit_ratio(9)), "1");
  EXPECT_TRUE(unit_ratio(1).told());
  EXPECT_FALSE(unit_ratio(9).is_faster());
}

TEST(PairedRatio, NarrowIntervalsKeepTheirEnds) {
  EXPECT_EQ(ratio_text({1.00012, 1.0001, 1.0003, 9}), "1.0001 [1.0001, 1.0003]");
  EXPECT_EQ(percent_text({0.315, 0.309, 0.322, 9}), "31.5 [30.9, 32.2]");
  EXPECT_EQ(excess_text({0.979, 0.97, 0.986, 9}), "−2.1 [−3.0, −1.4]");
}

TEST(PairedRatio, RefusesWhatCannotBePaired) {
  EXPECT_THROW(paired_ratio(rounds({1, 2}), rounds({1})), InvalidInput);
  EXPECT_THROW(paired_ratio(rounds({1, 0}), rounds({1, 1})), InvalidInput);
  EXPECT_THROW(paired_ratio(rounds({1, 1}), rounds({1, -1})), InvalidInput);
}

TEST(PairedRatio, DoubtsAreNamedOnce) {
  const std::array ratios{PairedRatio{1, 1, 1, 9, "a"}, PairedRatio{1, 1, 1, 9}, PairedRatio{1, 1, 1, 9, "b"},
                          PairedRatio{1, 1, 1, 9, "a"}};
  EXPECT_THAT(doubts_of(ratios), ElementsAre("a", "b"));
}

// Times with noise of both sides and a machine that drifts and jumps: the interval has the true ratio in it
// at least as often as it says, for few rounds and for many.
TEST(PairedRatio, CoversTheTruthAsOftenAsItSays) {
  constexpr double kTruth = 1.25;
  constexpr int kTrials = 4000;
  std::mt19937_64 draw(7);
  const auto uniform = [&] { return static_cast<double>((draw() >> 11U) + 1) * 0x1p-53; };
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  };
  for (const int n : {6, 7, 9, 12, 20}) {
    int covered = 0, n_told = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> times, baseline;
      for (int i = 0; i < n; ++i) {
        const double machine = 1 + 0.08 * i + (uniform() < 0.1 ? 0.8 : 0);
        // Noise only adds time, and seldom much.
        const auto noisy = [&] { return machine * std::exp(0.06 * std::abs(normal())); };
        times.push_back(kTruth * 100 * noisy());
        baseline.push_back(100 * noisy());
      }
      const PairedRatio ratio = paired_ratio(rounds(times), rounds(baseline));
      covered += ratio.low <= kTruth && kTruth <= ratio.high ? 1 : 0;
      n_told += ratio.told() ? 1 : 0;
    }
    // Two standard deviations of 4,000 trials are 0.7 %.
    EXPECT_GE(covered, (kRatioConfidence - 0.007) * kTrials) << n << " rounds";
    EXPECT_LE(covered, 0.995 * kTrials) << n << " rounds: it would say less than it knows";
    EXPECT_GT(n_told, 0.9 * kTrials) << n << " rounds";
  }
}

TEST(RoundOrder, GoesEverySecondRoundBackwards) {
  std::set<std::vector<std::size_t>> orders;
  for (std::int64_t round = 0; round < 40; round += 2) {
    std::vector<std::size_t> there = round_order(5, round, 3), back = round_order(5, round + 1, 3);
    std::ranges::reverse(back);
    EXPECT_EQ(there, back);
    orders.insert(there);
    std::ranges::sort(there);
    EXPECT_THAT(there, ElementsAre(0, 1, 2, 3, 4));
  }
  EXPECT_GT(orders.size(), 10U) << "orders are drawn anew";
  EXPECT_EQ(round_order(5, 8, 3), round_order(5, 8, 3));
  EXPECT_THAT(round_order(0, 0, 0), IsEmpty());
}

TEST(LoadWatch, KeepsTheHighestThatItSaw) {
  LoadWatch watch;
  EXPECT_FALSE(watch.seen().most);
  EXPECT_GE(watch.seen().processors, 1);
  watch.look();
  const auto first = watch.seen().most;
  watch.look();
  EXPECT_EQ(first.has_value(), load_average().has_value());
  if (first) {
    EXPECT_GE(*watch.seen().most, *first);
  }
}

TEST(RatioRules, StandInJsonAndWords) {
  const auto json = ratio_rules_json({1.25, 4});
  EXPECT_EQ(json["least_rounds"], 6);
  EXPECT_EQ(json["most_load"], 4.5);
  EXPECT_EQ(json["load"], 1.25);
  EXPECT_TRUE(ratio_rules_json({})["load"].is_null());
  for (const char* words : {"95 %", "fewer than 6 rounds", "0.5 above", "more than 4", "more than 2"})
    EXPECT_THAT(ratio_rules_text(), HasSubstr(words));
}

}  // namespace

}  // namespace keyscope::benchmarks

#include "app/adoption/recommendation.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"

namespace keyscope::adoption {

namespace {

using analysis::BootstrapMean;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr BootstrapMean kNone{0.0, -0.01, 0.01, 50}, kLarge{0.5, 0.4, 0.6, 50}, kVague{0.02, -0.1, 0.1, 50};

Candidate candidate(const std::string& policy, double memory, std::vector<BootstrapMean> losses,
                    benchmarks::RoundTimes first_token_ms = {}) {
  Candidate one{policy, "25%", memory, std::move(first_token_ms), {}};
  for (std::size_t i = 0; i < losses.size(); ++i)
    one.losses.push_back({"task " + std::to_string(i), losses[i]});
  one.p95_memory_share = memory;
  return one;
}

Fitness judged(const BootstrapMean& loss) { return judge_loss({"t", loss}, 0.02); }

TEST(Recommendation, JudgesByTheWholeInterval) {
  EXPECT_EQ(judged({0, -0.01, 0.02, 50}), Fitness::kFit);
  EXPECT_EQ(judged({0.01, -0.01, 0.03, 50}), Fitness::kCannotTell);
  EXPECT_EQ(judged({0.03, 0.02, 0.05, 50}), Fitness::kCannotTell);
  EXPECT_EQ(judged({0.04, 0.03, 0.05, 50}), Fitness::kUnfit);
}

TEST(Recommendation, FewExamplesSayNothing) {
  EXPECT_EQ(judged({0, 0, 0, kLeastExamples - 1}), Fitness::kCannotTell);
  EXPECT_EQ(judged({0, 0, 0, kLeastExamples}), Fitness::kFit);
  EXPECT_EQ(judged({0, kNaN, kNaN, kLeastExamples}), Fitness::kCannotTell);
  EXPECT_EQ(judge(candidate("a", 0.5, {}), 0.02), Fitness::kCannotTell);
}

// Where nothing is evicted, nothing can be lost, whatever the policy.
TEST(Recommendation, WhatWasScoredBeforeAnEvictionSaysNothing) {
  TaskLoss task{"t", kNone};
  task.after_eviction = 0;
  EXPECT_EQ(judge_loss(task, 0.02), Fitness::kCannotTell);
  std::vector candidates{candidate("a", 0.5, {kLarge}), candidate("b", 0.5, {kVague, kLarge})};
  candidates[0].losses[0].after_eviction = candidates[1].losses[1].after_eviction = 0;
  EXPECT_THAT(recommendation_text(recommend(candidates, {}), candidates, {}),
              HasSubstr("nearest comes b with a budget of 25%, which loses 2.0 points in task 0"));
  task.after_eviction = 0.01;
  EXPECT_EQ(judge_loss(task, 0.02), Fitness::kFit);
}

// Two per cent of perplexity are 0.0198 nats.
TEST(Recommendation, PerplexityIsJudgedInPerCent) {
  const auto judged_nats = [](double low, double high) {
    return judge_loss({"t", {high, low, high, 50}, TaskKind::kLikelihood}, 0.02);
  };
  EXPECT_EQ(judged_nats(0, std::log1p(0.02)), Fitness::kFit);
  EXPECT_EQ(judged_nats(0, 0.0199), Fitness::kCannotTell);
  EXPECT_EQ(judged_nats(0.0199, 0.03), Fitness::kUnfit);
}

TEST(Recommendation, WhatTheFullCacheDoesNotSolveSaysNothing) {
  TaskLoss task{"t", kNone};
  task.full = {0.04, 0.02, 0.06, 50};
  EXPECT_EQ(judge_loss(task, 0.02), Fitness::kCannotTell);
  EXPECT_EQ(doubt_text(task, 0.02),
            "the full cache itself scores 4.0 [2.0, 6.0] %, which does not begin above the tolerance of 2 "
            "points");
  task.full.low = 0.021;
  EXPECT_EQ(judge_loss(task, 0.02), Fitness::kFit);
  EXPECT_EQ(doubt_text(task, 0.02), "");
  task.kind = TaskKind::kLikelihood;
  task.full = {0, 0, 0, 50};
  EXPECT_EQ(judge_loss(task, 0.02), Fitness::kFit);
}

TEST(Recommendation, AModelThatSolvesNothingIsAdvisedNothing) {
  std::vector candidates{candidate("random", 0.25, {{0, 0, 0.018, 200}, {0, 0, 0.018, 200}}),
                         candidate("sink", 0.5, {{0, 0, 0.018, 200}, {0, 0, 0.018, 200}})};
  for (Candidate& one : candidates)
    for (TaskLoss& task : one.losses) task.full = {0, 0, 0, 200};
  const auto found = recommend(candidates, {});
  EXPECT_EQ(found.chosen, -1);
  EXPECT_EQ(
      recommendation_text(found, candidates, {}),
      "Keep the full cache: of 2 combinations of policy and budget none is fit (0 are not, 2 "
      "undecided); of the tasks, the full cache itself does not solve task 0, task 1, which therefore say "
      "nothing about eviction");
  candidates[1].losses[0].full = {0.5, 0.4, 0.6, 200};  // of what that budget affects, it solves some
  EXPECT_THAT(recommendation_text(recommend(candidates, {}), candidates, {}),
              HasSubstr("does not solve task 1, which therefore says nothing"));
}

TEST(Recommendation, SaysWhyItCannotTell) {
  TaskLoss task{"t", {0, 0, 0, 12}};
  EXPECT_EQ(doubt_text(task, 0.02), "12 affected examples; at least 20 are needed");
  task.loss = {0, kNaN, kNaN, 30};
  EXPECT_THAT(doubt_text(task, 0.02), HasSubstr("no interval"));
  task.loss = kVague;
  EXPECT_EQ(doubt_text(task, 0.02), "the interval reaches across the tolerance");
  task.after_eviction = 0;
  EXPECT_THAT(doubt_text(task, 0.02), HasSubstr("nothing was evicted"));
}

TEST(Recommendation, OneTaskThatSuffersIsEnough) {
  EXPECT_EQ(judge(candidate("a", 0.5, {kNone, kVague, kLarge}), 0.02), Fitness::kUnfit);
  EXPECT_EQ(judge(candidate("a", 0.5, {kNone, kVague}), 0.02), Fitness::kCannotTell);
  EXPECT_EQ(judge(candidate("a", 0.5, {kNone, kNone}), 0.02), Fitness::kFit);
}

TEST(Recommendation, TakesTheLeastMemoryAmongTheFit) {
  const std::vector candidates{candidate("unfit", 0.1, {kLarge}), candidate("large", 0.5, {kNone}),
                               candidate("small", 0.25, {kNone}), candidate("vague", 0.2, {kVague})};
  const auto found = recommend(candidates, {});
  EXPECT_EQ(found.chosen, 2);
  EXPECT_THAT(found.fitness,
              ElementsAre(Fitness::kUnfit, Fitness::kFit, Fitness::kFit, Fitness::kCannotTell));
}

TEST(Recommendation, OfEqualMemoryTheLeastLoss) {
  const BootstrapMean better{-0.005, -0.01, 0.01, 50};
  EXPECT_EQ(
      recommend(std::vector{candidate("a", 0.251, {kNone}), candidate("b", 0.255, {better})}, {}).chosen, 1);
}

int chosen_of(benchmarks::RoundTimes a, benchmarks::RoundTimes b) {
  return recommend(std::vector{candidate("a", 0.25, {kNone}, std::move(a)),
                               candidate("b", 0.25, {kNone}, std::move(b))},
                   {})
      .chosen;
}

const std::vector<double> kSlow{30, 31, 30, 32, 30, 31}, kFast{20, 21, 20, 22, 20, 21};

TEST(Recommendation, OfThoseAlikeOneWhoseFirstTokenComesSooner) {
  EXPECT_EQ(chosen_of({kSlow}, {kFast}), 1);
  EXPECT_EQ(chosen_of({kFast}, {kSlow}), 0);
  EXPECT_EQ(chosen_of({}, {kFast}), 0) << "what was not measured is compared with nothing";
}

// A ratio that cannot be told decides nothing: the one that was asked for first stays.
TEST(Recommendation, DoesNotRestOnTimesThatCannotBeTold) {
  EXPECT_EQ(chosen_of({kSlow, {2.5, 2}}, {kFast, {2.5, 2}}), 1);
  EXPECT_EQ(chosen_of({kSlow, {2.6, 2}}, {kFast, {2.6, 2}}), 0) << "the machine was busy";
  EXPECT_EQ(chosen_of({{30, 31, 30, 32, 30}}, {{20, 21, 20, 22, 20}}), 0) << "five rounds are too few";
  EXPECT_EQ(chosen_of({{300, 310, 74, 1832, 300, 310}}, {kFast}), 0) << "the spread forbids it";
  EXPECT_EQ(chosen_of({kSlow}, {{29, 32, 29, 31, 31, 30}}), 0) << "the interval reaches across 1";
}

TEST(Recommendation, SaysWhatTheFirstTokenTakesOrWhyNot) {
  std::vector candidates{candidate("a", 0.25, {kNone})};
  const auto text = [&] { return recommendation_text(recommend(candidates, {}), candidates, {}); };
  EXPECT_THAT(text(), ::testing::Not(HasSubstr("first token")));
  candidates[0].first_token_ratio = benchmarks::PairedRatio{0.93, 0.91, 0.95, 9};
  EXPECT_THAT(text(),
              HasSubstr("; its first token takes 0.93 [0.91, 0.95] times as long as the full cache's"));
  candidates[0].first_token_ratio->doubt = "3 rounds, of which at least 6 are needed";
  EXPECT_THAT(text(),
              HasSubstr("; whether its first token comes sooner or later cannot be told (3 rounds, of "
                        "which at least 6 are needed)"));
  EXPECT_THAT(text(), ::testing::Not(HasSubstr("0.93")));
}

TEST(Recommendation, AlikeInMemoryIsByDistanceFromTheLeast) {
  const BootstrapMean better{-0.005, -0.01, 0.01, 50};
  // Not by bins of a hundredth: 49.2 and 50.0 % are alike, 50.9 and 49.2 % are not.
  EXPECT_EQ(recommend(std::vector{candidate("a", 0.492, {kNone}), candidate("b", 0.5, {better})}, {}).chosen,
            1);
  EXPECT_EQ(
      recommend(std::vector{candidate("a", 0.509, {better}), candidate("b", 0.492, {kNone})}, {}).chosen, 1);
  // A chain of small steps goes no further than the first.
  EXPECT_EQ(recommend(std::vector{candidate("a", 0.25, {kNone}), candidate("b", 0.259, {kNone}),
                                  candidate("c", 0.268, {better})},
                      {})
                .chosen,
            0);
}

TEST(Recommendation, WhatSavesLittleAtLongPromptsIsNotAdopted) {
  std::vector candidates{candidate("a", 0.9, {kNone})};
  candidates[0].p95_memory_share = 0.96;
  EXPECT_EQ(recommend(candidates, {}).chosen, -1);
  candidates[0].p95_memory_share = 0.95;
  EXPECT_EQ(recommend(candidates, {}).chosen, 0);
  EXPECT_THAT(rule_text({}), HasSubstr("at most 95 % of the full cache's bytes at the 95th-percentile"));
}

TEST(Recommendation, WhatSavesNothingIsNotAdopted) {
  const std::vector candidates{candidate("a", 1, {kNone}), candidate("b", 1, {kLarge})};
  const auto found = recommend(candidates, {});
  EXPECT_EQ(found.chosen, -1);
  EXPECT_THAT(recommendation_text(found, candidates, {}),
              HasSubstr("none is fit and saves memory (1 are fit, 1 are not, 0 undecided)"));
}

// Few examples without a loss have a wide interval; what hurts is the loss.
TEST(Recommendation, TheWorstTaskIsTheOneThatLosesMost) {
  const BootstrapMean few{0, 0, 0.71, 3}, half{0.5, 0.3, 0.7, 20};
  const std::vector candidates{candidate("a", 0.75, {few, half}), candidate("b", 0.75, {few, kLarge}),
                               candidate("c", 0.75, {few, {0.25, 0.1, 0.4, 20}})};
  const auto found = recommend(candidates, {});
  EXPECT_THAT(found.worst_task, ElementsAre(1U, 1U, 1U));
  EXPECT_THAT(recommendation_text(found, candidates, {}),
              HasSubstr("nearest comes c with a budget of 25%, which loses 25.0 points in task 1"));
}

TEST(Recommendation, TellsLikelihoodsAsPerplexity) {
  std::vector candidates{candidate("a", 0.5, {kLarge})};
  candidates[0].losses[0].kind = TaskKind::kLikelihood;
  EXPECT_THAT(recommendation_text(recommend(candidates, {}), candidates, {}),
              HasSubstr("which loses 64.9 % of perplexity"));
  candidates[0].losses[0].loss = {0.01, 0, 0.015, 50};
  EXPECT_THAT(
      recommendation_text(recommend(candidates, {}), candidates, {}),
      HasSubstr("loses at most 1.5 points (or per cent of perplexity) in any task with 95 % confidence "
                "(most on average in task 0: 1.0 [0.0, 1.5])"));
}

TEST(Recommendation, KeepsTheFullCacheWhereNoneIsFit) {
  const std::vector candidates{candidate("a", 0.25, {kLarge}), candidate("b", 0.25, {kVague})};
  const auto found = recommend(candidates, {});
  EXPECT_EQ(found.chosen, -1);
  EXPECT_THAT(
      recommendation_text(found, candidates, {}),
      HasSubstr("Keep the full cache: of 2 combinations of policy and budget none is fit (1 are not, 1 "
                "undecided); nearest comes b with a budget of 25%, which loses 2.0 points in task 0"));
  EXPECT_EQ(recommend({}, {}).chosen, -1);
}

TEST(Recommendation, SaysWhatIsLostWhere) {
  const std::vector candidates{candidate("keydiff", 0.25, {{-0.01, -0.02, 0, 40}, {0.01, 0.0, 0.015, 40}})};
  const auto found = recommend(candidates, {});
  EXPECT_THAT(found.worst_task, ElementsAre(1U));
  EXPECT_EQ(
      recommendation_text(found, candidates, {}),
      "Adopt keydiff with a budget of 25%: it needs 25 % of the full cache's memory and loses at most 1.5 "
      "points in any task with 95 % confidence (most on average in task 1: 1.0 [0.0, 1.5])");
  EXPECT_THAT(rule_text({0.05, 0.9}),
              HasSubstr("the 90 % interval of the loss against the full cache, paired "
                        "example by example, ends at 5 points or below (5 % of"));
  EXPECT_THAT(rule_text({0.0025, 0.95}), HasSubstr("ends at 0.25 points or below"));
}

// As many losses of so much each among n examples, of which the others are the same.
analysis::BootstrapMean loss_of(std::size_t n, std::size_t n_lost, double lost = 1) {
  const std::vector<double> full(n, 1.0);
  std::vector<double> kept = full;
  for (std::size_t i = 0; i < n_lost; ++i) kept[i] -= lost;
  return score_loss("t", {full}, {kept}, {}).loss;
}

TEST(TaskLoss, IsPairedExampleByExample) {
  const auto loss = score_loss("t", {{1.0, 0.5, 1.0, 0.0}}, {{0.0, 0.5, 0.5, 1.0}}, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, (1.0 + 0 + 0.5 - 1.0) / 4);
  const auto plain = analysis::bootstrap_mean(std::array{1.0, 0.0, 0.5, -1.0});
  EXPECT_DOUBLE_EQ(loss.low, plain.low);
  EXPECT_DOUBLE_EQ(loss.high, plain.high);  // half an example lost of 4 leaves less
  EXPECT_EQ(loss.n_samples, 4);
}

// (1 - p)^n = 0.025: with 149 examples p is 2.4 %, with 200 it is 1.8 %.
TEST(TaskLoss, NoLossAmongFewExamplesDoesNotRuleItOut) {
  for (const std::size_t n : {20U, 149U, 200U}) {
    const std::vector<double> same(n, 1.0);
    const auto loss = score_loss("t", {same}, {same}, {}).loss;
    EXPECT_EQ(loss.mean, 0);
    EXPECT_NEAR(std::pow(1 - loss.high, static_cast<double>(n)), 0.025, 1e-12);
  }
}

// P(X <= 1) = 2.5 % for 200 trials of 2.75 %.
TEST(TaskLoss, OneLossIsNoMoreCertainThanNone) {
  EXPECT_NEAR(loss_of(200, 1).high, 0.0275, 5e-5);
  EXPECT_GT(loss_of(160, 1).high, loss_of(160, 0).high);
  EXPECT_DOUBLE_EQ(loss_of(160, 1).high, analysis::clopper_pearson_high(1, 160, 0.95));
  // 183 examples are needed where none loses, and 277 where one does.
  EXPECT_GT(loss_of(182, 0).high, 0.02);
  EXPECT_LE(loss_of(183, 0).high, 0.02);
  EXPECT_GT(loss_of(276, 1).high, 0.02);
  EXPECT_LE(loss_of(277, 1).high, 0.02);
}

TEST(TaskLoss, PartsOfALossAddUp) {
  EXPECT_NEAR(loss_of(200, 2, 0.25).high, analysis::clopper_pearson_high(0.5, 200, 0.95), 1e-12);
  EXPECT_NEAR(loss_of(200, 4, 0.25).high, analysis::clopper_pearson_high(1, 200, 0.95), 1e-12);
  // What is gained elsewhere is set off against it, and makes the bootstrap's interval the wider.
  std::vector<double> full(200, 0.0), kept(200, 0.0);
  full[0] = kept[1] = 1;
  EXPECT_GE(score_loss("t", {full}, {kept}, {}).loss.high, analysis::clopper_pearson_high(0, 200, 0.95));
}

TEST(TaskLoss, NeverEndsLowerWhereMoreIsLost) {
  for (const std::size_t n : {20U, 160U})
    for (const std::size_t n_gained : {0U, 4U, 20U}) {
      const std::vector<double> full(n, 0.5);
      std::vector<double> kept = full;
      for (std::size_t i = 0; i < n_gained; ++i) kept[i] = 1;
      double before = -1;
      for (const double lost : {0.001, 0.25, 0.5})
        for (std::size_t i = 0; i < n; i += n / 10) {
          kept[n - 1 - i] = std::min(kept[n - 1 - i], full[i] - lost);
          const double high = score_loss("t", {full}, {kept}, {}).loss.high;
          EXPECT_GE(high, before) << i << " of " << n;
          before = high;
        }
    }
}

TEST(TaskLoss, WhereAllIsLostEndsThere) { EXPECT_EQ(loss_of(20, 20).high, 1); }

TEST(TaskLoss, GainsStayGainsWhereNothingIsLost) {
  std::vector<double> full(200, 0.0), kept(200, 0.0);
  for (std::size_t i = 0; i < kept.size(); i += 2) kept[i] = 1;
  const auto loss = score_loss("t", {full}, {kept}, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, -0.5);
  EXPECT_LT(loss.high, -0.35);
}

TEST(TaskLoss, OfLikelihoodsGoesTheOtherWay) {
  const auto loss = likelihood_loss("t", {{2.0, 3.0}}, {{2.5, 3.5}}, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, 0.5);
  EXPECT_DOUBLE_EQ(loss.high, 0.5);
}

TEST(TaskLoss, DataSetsWeighTheSame) {
  // 2 of 4 lost, 0 of 40.
  const ScoresBySet full{std::vector(4, 0.0), std::vector(40, 0.0)};
  ScoresBySet kept = full;
  kept[0][1] = kept[0][3] = 1;
  const auto loss = likelihood_loss("t", full, kept, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, 0.25);
  EXPECT_EQ(loss.n_samples, 44);
  // Only the first data set varies: half of what its own interval is.
  const auto alone = analysis::bootstrap_mean(std::array{0.0, 1.0, 0.0, 1.0});
  EXPECT_DOUBLE_EQ(loss.low, alone.low / 2);
  EXPECT_DOUBLE_EQ(loss.high, alone.high / 2);
}

// As many as if both data sets had the smaller one's size; of equal ones, all.
TEST(TaskLoss, NoLossInAnyDataSetIsBoundedByTheSmallest) {
  const ScoresBySet equal{std::vector(30, 1.0), std::vector(30, 0.5)};
  EXPECT_NEAR(std::pow(1 - score_loss("t", equal, equal, {}).loss.high, 60), 0.025, 1e-12);
  const ScoresBySet unequal{std::vector(30, 1.0), std::vector(300, 0.5)};
  EXPECT_NEAR(std::pow(1 - score_loss("t", unequal, unequal, {}).loss.high, 60), 0.025, 1e-12);
}

TEST(TaskLoss, NeedsPairs) {
  EXPECT_THROW(score_loss("t", {{1.0, 1.0}}, {{1.0}}, {}), InvalidInput);
  EXPECT_THROW(score_loss("t", {{1.0}, {1.0}}, {{1.0}}, {}), InvalidInput);
}

}  // namespace

}  // namespace keyscope::adoption

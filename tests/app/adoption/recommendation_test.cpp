#include "app/adoption/recommendation.hpp"

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::adoption {
namespace {

using analysis::BootstrapMean;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr BootstrapMean kNone{0.0, -0.01, 0.01, 50}, kLarge{0.5, 0.4, 0.6, 50}, kVague{0.02, -0.1, 0.1, 50};

Candidate candidate(const std::string& policy, double memory, std::vector<BootstrapMean> losses,
                    double first_token_ms = kNaN) {
  Candidate one{policy, "25%", memory, first_token_ms, {}};
  for (std::size_t i = 0; i < losses.size(); ++i)
    one.losses.push_back({"task " + std::to_string(i), losses[i]});
  return one;
}

TEST(Recommendation, JudgesByTheWholeInterval) {
  EXPECT_EQ(judge_loss({0, -0.01, 0.02, 50}, 0.02), Fitness::kFit);
  EXPECT_EQ(judge_loss({0.01, -0.01, 0.03, 50}, 0.02), Fitness::kCannotTell);
  EXPECT_EQ(judge_loss({0.03, 0.02, 0.05, 50}, 0.02), Fitness::kCannotTell);
  EXPECT_EQ(judge_loss({0.04, 0.03, 0.05, 50}, 0.02), Fitness::kUnfit);
}

TEST(Recommendation, FewExamplesSayNothing) {
  EXPECT_EQ(judge_loss({0, 0, 0, kLeastExamples - 1}, 0.02), Fitness::kCannotTell);
  EXPECT_EQ(judge_loss({0, 0, 0, kLeastExamples}, 0.02), Fitness::kFit);
  EXPECT_EQ(judge_loss({0, kNaN, kNaN, kLeastExamples}, 0.02), Fitness::kCannotTell);
  EXPECT_EQ(judge(candidate("a", 0.5, {}), 0.02), Fitness::kCannotTell);
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

TEST(Recommendation, OfEqualMemoryTheLeastLossThenTheFaster) {
  const BootstrapMean better{-0.005, -0.01, 0.01, 50};
  EXPECT_EQ(
      recommend(std::vector{candidate("a", 0.251, {kNone}), candidate("b", 0.255, {better})}, {}).chosen, 1);
  EXPECT_EQ(
      recommend(std::vector{candidate("a", 0.25, {kNone}, 30), candidate("b", 0.25, {kNone}, 20)}, {}).chosen,
      1);
  EXPECT_EQ(
      recommend(std::vector{candidate("a", 0.25, {kNone}), candidate("b", 0.25, {kNone}, 20)}, {}).chosen, 1);
}

TEST(Recommendation, KeepsTheFullCacheWhereNoneIsFit) {
  const std::vector candidates{candidate("a", 0.25, {kLarge}), candidate("b", 0.25, {kVague})};
  const auto found = recommend(candidates, {});
  EXPECT_EQ(found.chosen, -1);
  EXPECT_THAT(
      recommendation_text(found, candidates, {}),
      HasSubstr("Keep the full cache: of 2 combinations of policy and budget none is fit (1 are not, 1 "
                "cannot be told); nearest comes b with a budget of 25%, which loses 2.0 points in task 0"));
  EXPECT_EQ(recommend({}, {}).chosen, -1);
}

TEST(Recommendation, SaysWhatIsLostWhere) {
  const std::vector candidates{candidate("keydiff", 0.25, {{-0.01, -0.02, 0, 40}, {0.01, 0.0, 0.015, 40}})};
  const auto found = recommend(candidates, {});
  EXPECT_THAT(found.worst_task, ElementsAre(1U));
  EXPECT_EQ(
      recommendation_text(found, candidates, {}),
      "Adopt keydiff with a budget of 25%: it needs 25 % of the full cache's memory and loses at most 1.5 "
      "points in any task with 95 % confidence (most in task 1: 1.0 [0.0, 1.5])");
  EXPECT_THAT(rule_text({0.05, 0.9}),
              HasSubstr("the 90 % interval of the loss against the full cache, paired "
                        "example by example, ends at 5.0 points or below (5.0 % of"));
}

}  // namespace
}  // namespace keyscope::adoption

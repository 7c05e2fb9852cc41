#include "app/adoption/task_loss.hpp"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/errors.hpp"

namespace keyscope::adoption {
namespace {

TEST(TaskLoss, IsPairedExampleByExample) {
  const auto loss = score_loss("t", {{1.0, 0.5, 1.0, 0.0}}, {{0.0, 0.5, 0.5, 1.0}}, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, (1.0 + 0 + 0.5 - 1.0) / 4);
  const auto plain = analysis::bootstrap_mean(std::array{1.0, 0.0, 0.5, -1.0});
  EXPECT_DOUBLE_EQ(loss.low, plain.low);
  EXPECT_DOUBLE_EQ(loss.high, plain.high);
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
  const ScoresBySet full{std::vector(4, 1.0), std::vector(40, 1.0)};
  ScoresBySet kept = full;
  kept[0][1] = kept[0][3] = 0;
  const auto loss = score_loss("t", full, kept, {}).loss;
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

#include "app/adoption/task_loss.hpp"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/clopper_pearson.hpp"
#include "base/errors.hpp"

namespace keyscope::adoption {
namespace {

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

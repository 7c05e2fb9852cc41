#include "app/adoption/task_loss.hpp"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/errors.hpp"

namespace keyscope::adoption {
namespace {

TEST(TaskLoss, IsPairedExampleByExample) {
  const std::array full{1.0, 0.5, 1.0, 0.0}, kept{0.0, 0.5, 0.5, 1.0};
  const auto loss = score_loss("t", full, kept, {}).loss;
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
    const auto loss = score_loss("t", same, same, {}).loss;
    EXPECT_EQ(loss.mean, 0);
    EXPECT_NEAR(std::pow(1 - loss.high, static_cast<double>(n)), 0.025, 1e-12);
  }
}

TEST(TaskLoss, GainsStayGainsWhereNothingIsLost) {
  std::vector<double> full(200, 0.0), kept(200, 0.0);
  for (std::size_t i = 0; i < kept.size(); i += 2) kept[i] = 1;
  const auto loss = score_loss("t", full, kept, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, -0.5);
  EXPECT_LT(loss.high, -0.35);
}

TEST(TaskLoss, OfLikelihoodsGoesTheOtherWay) {
  const std::array full{2.0, 3.0}, kept{2.5, 3.5};
  const auto loss = likelihood_loss("t", full, kept, {}).loss;
  EXPECT_DOUBLE_EQ(loss.mean, 0.5);
  EXPECT_DOUBLE_EQ(loss.high, 0.5);
}

TEST(TaskLoss, NeedsPairs) {
  const std::array two{1.0, 1.0};
  EXPECT_THROW(score_loss("t", two, std::array{1.0}, {}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::adoption

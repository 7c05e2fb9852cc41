#include "capture/inference/token_choice.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

// Shares of 0.5, 0.3, 0.15 and 0.05.
std::vector<float> four_tokens() {
  std::vector<float> logits;
  for (const double share : {0.15, 0.5, 0.05, 0.3}) logits.push_back(static_cast<float>(std::log(share)));
  return logits;
}

std::map<std::int32_t, double> shares_of_draws(const Sampling& sampling, int n) {
  std::map<std::int32_t, double> shares;
  for (int draw = 0; draw < n; ++draw) shares[choose_token(four_tokens(), sampling, draw)] += 1.0 / n;
  return shares;
}

TEST(TokenChoice, WithoutATemperatureItIsTheLikeliestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(choose_token(four_tokens(), {}, 0), 1);
  EXPECT_EQ(choose_token(std::vector<float>{1, 3, 3, 2}, {}, 5), 1);
}

TEST(TokenChoice, DrawsFollowTheSoftmax) {
  const auto shares = shares_of_draws({.temperature = 1, .top_p = 1, .seed = 4}, 20'000);
  EXPECT_NEAR(shares.at(1), 0.5, 0.015);
  EXPECT_NEAR(shares.at(3), 0.3, 0.015);
  EXPECT_NEAR(shares.at(0), 0.15, 0.015);
  EXPECT_NEAR(shares.at(2), 0.05, 0.01);
}

// At temperature 1/2 shares are squared: 0.25, 0.09, 0.0225, 0.0025 over their sum 0.365.
TEST(TokenChoice, ATemperatureSharpens) {
  const auto shares = shares_of_draws({.temperature = 0.5, .top_p = 1, .seed = 4}, 20'000);
  EXPECT_NEAR(shares.at(1), 0.25 / 0.365, 0.015);
  EXPECT_NEAR(shares.at(3), 0.09 / 0.365, 0.015);
}

// The two likeliest hold 0.8, which is enough for 0.6 and for 0.8, not for 0.81.
TEST(TokenChoice, OnlyTheNucleusIsDrawnFrom) {
  for (const double top_p : {0.6, 0.79}) {
    const auto shares = shares_of_draws({.temperature = 1, .top_p = top_p, .seed = 9}, 20'000);
    EXPECT_EQ(shares.size(), 2U) << top_p;
    EXPECT_NEAR(shares.at(1), 0.5 / 0.8, 0.015) << top_p;
  }
  EXPECT_EQ(shares_of_draws({.temperature = 1, .top_p = 0.81, .seed = 9}, 2'000).size(), 3U);
  EXPECT_EQ(shares_of_draws({.temperature = 1, .top_p = 0.3, .seed = 9}, 2'000).size(), 1U);
}

TEST(TokenChoice, ADrawDependsOnItsSeedAndNumberAlone) {
  const Sampling one{.temperature = 1, .top_p = 1, .seed = 1}, two{.temperature = 1, .top_p = 1, .seed = 2};
  int different = 0;
  for (int draw = 0; draw < 100; ++draw) {
    EXPECT_EQ(choose_token(four_tokens(), one, draw), choose_token(four_tokens(), one, draw));
    different += choose_token(four_tokens(), one, draw) != choose_token(four_tokens(), two, draw) ? 1 : 0;
  }
  EXPECT_GT(different, 30);
}

TEST(TokenChoice, WhatCannotBeIsRefused) {
  EXPECT_NO_THROW(check_sampling({.temperature = 0.95, .top_p = 0.95, .seed = 0}));
  for (const double temperature : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_THROW(check_sampling({.temperature = temperature, .top_p = 1, .seed = 0}), UsageError);
  for (const double top_p : {0.0, 1.5, std::nan("")})
    EXPECT_THROW(check_sampling({.temperature = 1, .top_p = top_p, .seed = 0}), UsageError);
}

}  // namespace
}  // namespace keyscope::capture

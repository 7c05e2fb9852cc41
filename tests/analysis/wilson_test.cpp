#include "analysis/wilson.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

// The ends are the shares of which the hits are 1.96 standard deviations away: (s - p)² = z² p (1 - p) / n.
TEST(Wilson, EndsSolveTheirEquation) {
  const double z = 1.959963984540054;
  for (const auto& [hits, n] : {std::pair{8, 10}, {1, 3}, {50, 400}, {0, 7}, {7, 7}}) {
    const WilsonShare share = wilson_share(hits, n);
    EXPECT_DOUBLE_EQ(share.share, static_cast<double>(hits) / n);
    for (const double end : {share.low, share.high}) {
      if (end == 0 || end == 1) continue;
      EXPECT_NEAR(std::pow(share.share - end, 2), z * z * end * (1 - end) / n, 1e-14);
    }
    EXPECT_LE(share.low, share.share);
    EXPECT_GE(share.high, share.share);
  }
}

TEST(Wilson, AllOrNoneStillLeaveAnInterval) {
  EXPECT_NEAR(wilson_share(10, 10).low, 0.7224672, 1e-7);
  EXPECT_NEAR(wilson_share(0, 10).high, 0.2775328, 1e-7);
  EXPECT_NEAR(wilson_share(10, 10).high, 1, 1e-15);
}

TEST(Wilson, WithoutTrialsNothingIsKnown) {
  EXPECT_TRUE(std::isnan(wilson_share(0, 0).share));
  EXPECT_EQ(wilson_share(0, 0).low, 0);
  EXPECT_EQ(wilson_share(0, 0).high, 1);
}

TEST(Wilson, MoreHitsThanTrialsAreRefused) {
  EXPECT_THROW(wilson_share(4, 3), InvalidInput);
  EXPECT_THROW(wilson_share(-1, 3), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

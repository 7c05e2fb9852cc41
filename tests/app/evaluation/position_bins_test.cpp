#include "app/evaluation/position_bins.hpp"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

TEST(PositionBins, HoldEveryPositionOnce) {
  for (std::int64_t n = 1; n < 40; ++n)
    for (std::int64_t n_bins = 1; n_bins <= n; ++n_bins) {
      const PositionBins bins{n, n_bins};
      EXPECT_EQ(bins.begin(0), 0);
      EXPECT_EQ(bins.begin(n_bins), n);
      for (std::int64_t bin = 0; bin < n_bins; ++bin) {
        EXPECT_GE(bins.size(bin), n / n_bins);
        EXPECT_LE(bins.size(bin), n / n_bins + 1);
      }
    }
}

TEST(PositionBins, MeansAreThoseOfThePositions) {
  const std::vector<double> values{1, 2, 4, 8, 16};
  EXPECT_THAT(bin_means(values, {5, 2}), ::testing::ElementsAre(1.5, 28 / 3.0));
  for (std::int64_t n_bins = 1; n_bins <= 5; ++n_bins)
    EXPECT_NEAR(mean_of_bins(bin_means(values, {5, n_bins}), {5, n_bins}), 31 / 5.0, 1e-14);
}

TEST(PositionBins, RefuseWhatDoesNotFit) {
  const std::vector<double> values{1, 2};
  EXPECT_THROW(bin_means(values, {2, 3}), InvalidInput);
  EXPECT_THROW(bin_means(values, {3, 1}), InvalidInput);
  EXPECT_THROW(bin_means(values, {2, 0}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::evaluation

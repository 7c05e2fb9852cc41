#include "analysis/slack_histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/errors.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SlackHistogram, FollowsTheSortedSlacks) {
  // Over 60 octaves and both signs, against the order statistics themselves.
  const auto numbers = sample_uniform(1, 5000);
  std::vector<double> slacks;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2)
    slacks.push_back((numbers[i] < 0.3 ? -1 : 1) * std::exp2(60 * numbers[i + 1] - 30));
  SlackHistogram histogram;
  histogram.add(Eigen::Map<const ArrayXd>(slacks.data(), std::ssize(slacks)));
  EXPECT_EQ(histogram.count(), std::ssize(slacks));
  std::sort(slacks.begin(), slacks.end());
  EXPECT_EQ(histogram.quantile(0), slacks.front());
  EXPECT_EQ(histogram.quantile(1), slacks.back());
  for (const double p : {0.001, 0.1, 0.29, 0.31, 0.5, 0.9, 0.999}) {
    const double expected = slacks[static_cast<std::size_t>(std::ceil(p * 2500)) - 1];
    EXPECT_NEAR(histogram.quantile(p), expected, std::abs(expected) / 32) << p;
  }
}

TEST(SlackHistogram, CountsWhatIsBeyondItsBins) {
  SlackHistogram histogram;
  ArrayXd slacks(5);
  slacks << -1e30, 1e-20, 0, -1e-20, 1e30;
  histogram.add(slacks);
  EXPECT_EQ(histogram.count(), 5);
  EXPECT_EQ(histogram.quantile(0), -1e30);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  EXPECT_EQ(histogram.quantile(1), 1e30);
}

TEST(SlackHistogram, PassesOverWhatDoesNotCount) {
  SlackHistogram histogram;
  EXPECT_TRUE(std::isnan(histogram.quantile(0.5)));
  histogram.add(ArrayXd::Constant(3, kInfinity));
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_TRUE(std::isnan(histogram.quantile(0.5)));
  histogram.add(ArrayXd::Constant(1, 0.3));
  histogram.add(ArrayXd::Constant(2, kInfinity));
  EXPECT_EQ(histogram.count(), 1);
  for (const double p : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.quantile(p), 0.3);
}

TEST(SlackHistogram, RefusesWhatIsNoProbability) {
  for (const double p : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(SlackHistogram().quantile(p), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

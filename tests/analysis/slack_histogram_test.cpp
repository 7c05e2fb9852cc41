#include "analysis/slack_histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
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

TEST(SlackHistogram, CountsBelowFollowsTheSortedSlacks) {
  const auto numbers = sample_uniform(2, 4000);
  ArrayXd slacks(std::ssize(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) slacks[static_cast<Index>(i)] = 3 * numbers[i] - 1;
  SlackHistogram histogram;
  histogram.add(slacks);
  EXPECT_EQ(histogram.count_below(slacks.minCoeff()), 0);
  EXPECT_EQ(histogram.count_below(2.5), 4000);
  for (const double at : {-0.5, -0.25, 0.25, 1.0}) {  // powers of two: edges of bins
    const double expected = static_cast<double>((slacks < at).count());
    EXPECT_EQ(histogram.count_below(at), at < 0 ? static_cast<double>((slacks <= at).count()) : expected);
  }
  for (const double at : {-0.7, -0.01, 0.0, 0.33, 1.9})  // uniform inside a bin, as the slacks are
    EXPECT_NEAR(histogram.count_below(at), static_cast<double>((slacks < at).count()), 40) << at;
}

TEST(SlackHistogram, TwoAreAddedAsIfTheyHadBeenOne) {
  SlackHistogram a, b, both;
  const ArrayXd low = ArrayXd::LinSpaced(50, -2, 1), high = ArrayXd::LinSpaced(70, 0.5, 9);
  a.add(low);
  b.add(high);
  both.add(low);
  both.add(high);
  a.add(b);
  EXPECT_EQ(a.count(), 120);
  for (const double p : {0.0, 0.2, 0.5, 0.8, 1.0}) EXPECT_EQ(a.quantile(p), both.quantile(p));
  EXPECT_EQ(a.count_below(0.75), both.count_below(0.75));
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

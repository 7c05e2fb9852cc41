#include "analysis/quantiles.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Quantiles, InterpolateBetweenSortedValues) {
  EXPECT_EQ(quantiles(Values{40, 10, 20, 30}, Values{0, 0.5, 1, 0.25}), (Values{10, 25, 40, 17.5}));
  EXPECT_EQ(quantiles(Values{7}, Values{0, 0.3, 1}), (Values{7, 7, 7}));
}

TEST(Quantiles, TakeInfinitiesAsExtremes) {
  EXPECT_EQ(quantiles(Values{kInf, 1, -kInf, kInf}, Values{0, 1.0 / 3, 1}), (Values{-kInf, 1, kInf}));
}

TEST(Quantiles, OfNothingAreNotNumbers) {
  const Values none = quantiles(Values{}, Values{0, 1});
  ASSERT_EQ(none.size(), 2U);
  EXPECT_TRUE(std::isnan(none[0]) && std::isnan(none[1]));
  EXPECT_TRUE(quantiles(Values{1, 2}, Values{}).empty());
}

TEST(Quantiles, RefuseWhatHasNoOrder) {
  EXPECT_THROW(quantiles(Values{1, kNaN}, Values{0.5}), InvalidInput);
  for (const double p : {-0.1, 1.1, kNaN}) EXPECT_THROW(quantiles(Values{1}, Values{p}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

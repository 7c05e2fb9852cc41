#include "analysis/concentration.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

// Half the mean absolute difference of all pairs, relative to the mean: the definition, in O(n²).
double gini_by_pairs(const std::vector<double>& amounts) {
  double differences = 0, sum = 0;
  for (const double a : amounts) {
    sum += a;
    for (const double b : amounts) differences += std::abs(a - b);
  }
  return differences / (2 * static_cast<double>(amounts.size()) * sum);
}

TEST(Gini, IsZeroForEqualAmountsAndNearOneForASingleOne) {
  EXPECT_NEAR(gini(std::vector<double>(7, 3.0)), 0, 1e-15);
  std::vector<double> one(100);
  one[42] = 5;
  EXPECT_NEAR(gini(one), 0.99, 1e-15);
  EXPECT_EQ(gini(std::vector<double>{2}), 0);
}

TEST(Gini, IsTheMeanDifferenceOfAllPairs) {
  std::vector<double> amounts;
  for (int i = 0; i < 53; ++i) {
    amounts.push_back(std::fmod(7.3 * i * i, 11));
    if (i > 0) {
      EXPECT_NEAR(gini(amounts), gini_by_pairs(amounts), 1e-13) << i;
    }
  }
}

TEST(TopShare, CountsPositionsUpwards) {
  std::vector<double> amounts(250, 1);
  amounts[3] = 50;
  amounts[200] = 40;
  EXPECT_DOUBLE_EQ(top_share(amounts, 0.01), (50 + 40 + 1) / 338.0);  // the third of ceil(2.5)
  EXPECT_DOUBLE_EQ(top_share(amounts, 1), 1);
  EXPECT_DOUBLE_EQ(top_share(std::vector<double>{4}, 0.01), 1);
}

TEST(Concentration, OfNothingDoesNotExist) {
  for (const auto& nothing : {std::vector<double>(), std::vector<double>(5)}) {
    EXPECT_TRUE(std::isnan(gini(nothing)));
    EXPECT_TRUE(std::isnan(top_share(nothing, 0.01)));
  }
}

TEST(Concentration, RefusesWhatIsNoAmount) {
  for (const double bad :
       {-1e-9, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(gini(std::vector<double>{1, bad}), InvalidInput);
    EXPECT_THROW(top_share(std::vector<double>{1, bad}, 0.5), InvalidInput);
  }
  for (const double fraction : {0.0, -0.1, 1.1})
    EXPECT_THROW(top_share(std::vector<double>{1, 2}, fraction), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

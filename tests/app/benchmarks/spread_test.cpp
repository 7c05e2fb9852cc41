#include "app/benchmarks/spread.hpp"

#include <gtest/gtest.h>

namespace keyscope::benchmarks {
namespace {

TEST(Spread, OfNothingIsNothing) { EXPECT_FALSE(spread_of({}).has_value()); }

TEST(Spread, MedianOfAnOddNumberIsTheMiddle) {
  const auto spread = spread_of({5, 1, 9});
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->median, 5);
  EXPECT_EQ(spread->least, 1);
  EXPECT_EQ(spread->most, 9);
}

TEST(Spread, MedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(spread_of({4, 1, 100, 2}).value().median, 3);
}

}  // namespace
}  // namespace keyscope::benchmarks

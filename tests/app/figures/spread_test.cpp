#include "app/figures/spread.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Spread, IsABarFromTheFifthToTheNinetyFifthPercentileAndTheMedian) {
  std::vector<double> values(101);
  std::iota(values.begin(), values.end(), 0.0);
  values.push_back(std::numeric_limits<double>::quiet_NaN());  // left out
  SpreadSeries spread("keys", "keys", kBlue, Marker::kDisc);
  spread.add(3, values);
  Panel panel;
  std::move(spread).put_into(panel);
  ASSERT_EQ(panel.lines.size(), 1U);
  ASSERT_EQ(panel.points.size(), 1U);
  ASSERT_EQ(panel.lines[0].y.size(), 3U);
  EXPECT_EQ(panel.lines[0].y[0], 5);
  EXPECT_EQ(panel.lines[0].y[1], 95);
  EXPECT_TRUE(std::isnan(panel.lines[0].y[2])) << "the next bar is not joined to this one";
  EXPECT_THAT(panel.lines[0].x, ElementsAre(3, 3, 3));
  EXPECT_THAT(panel.points[0].x, ElementsAre(3));
  EXPECT_THAT(panel.points[0].y, ElementsAre(50));
  EXPECT_THAT(panel.lines[0].label, IsEmpty()) << "one legend entry is enough";
}

TEST(Spread, NothingIsDrawnOfNothing) {
  SpreadSeries spread("keys", "keys", kBlue, Marker::kDisc);
  spread.add(0, std::vector<double>{});
  spread.add(1, std::vector<double>{std::numeric_limits<double>::infinity()});
  Panel panel;
  std::move(spread).put_into(panel);
  EXPECT_THAT(panel.points[0].x, IsEmpty());
}

}  // namespace
}  // namespace keyscope::figures

#include "app/figures/scale_ticks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

TEST(NameWithUnits, HasBracketsOnlyAroundUnits) {
  EXPECT_EQ(name_with_units("log volume", "nats"), "log volume [nats]");
  EXPECT_EQ(name_with_units("cosine", ""), "cosine");
}

TEST(TicksOfAnAxis, AreItsCategoriesInsideTheRange) {
  const Axis axis{"run", "", {"none", "keydiff", "sink"}};
  EXPECT_THAT(ticks_of(axis, 0.5, 2, 10, false),
              ElementsAre(Field(&Tick::label, "keydiff"), Field(&Tick::label, "sink")));
}

TEST(TicksOfAnAxis, AreWholeNumbersWhereThingsAreCounted) {
  const auto values = [](const std::vector<Tick>& ticks) {
    std::vector<double> all;
    for (const Tick& tick : ticks) all.push_back(tick.value);
    return all;
  };
  EXPECT_THAT(values(ticks_of(Axis{"layer", "", {}, true}, 0, 2, 8, false)), ElementsAre(0, 1, 2));
  EXPECT_THAT(values(ticks_of(Axis{"token", ""}, 0, 2, 8, true)), ElementsAre(0, 1, 2));
  EXPECT_GT(ticks_of(Axis{"cosine", ""}, 0, 2, 8, false).size(), 3U);
}

TEST(TicksOfAScale, StandWhereTheColourIs) {
  ColourScale scale;
  scale.low = -1;
  scale.high = 1;
  const auto ticks = ticks_of(scale, 3, 0);
  ASSERT_FALSE(ticks.empty());
  for (const ScaleTick& tick : ticks) {
    EXPECT_GE(tick.share, 0);
    EXPECT_LE(tick.share, 1);
  }
  EXPECT_EQ(ticks[ticks.size() / 2].label, "0");
  EXPECT_DOUBLE_EQ(ticks[ticks.size() / 2].share, 0.5);
}

TEST(TicksOfAScale, AreCategoriesFromTheTop) {
  ColourScale scale;
  scale.categories = {"word", "digit"};
  const auto ticks = ticks_of(scale, 5, 0.25);
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_EQ(ticks[0].label, "word");
  EXPECT_DOUBLE_EQ(ticks[0].share, 0.875);
  EXPECT_DOUBLE_EQ(ticks[1].share, 0.625);
}

}  // namespace
}  // namespace keyscope::figures

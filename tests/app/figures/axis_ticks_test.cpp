#include "app/figures/axis_ticks.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> texts;
  for (const Tick& tick : ticks) texts.push_back(tick.label);
  return texts;
}

TEST(LinearTicks, StepsAreOneTwoFive) {
  EXPECT_THAT(labels(linear_ticks(0, 1, 5)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(linear_ticks(-1, 1, 4)), ElementsAre("−1.0", "−0.5", "0", "0.5", "1.0"));
  EXPECT_THAT(labels(linear_ticks(3, 52, 5)), ElementsAre("10", "20", "30", "40", "50"));
  EXPECT_THAT(labels(linear_ticks(0, 4096, 4)), ElementsAre("0", "2,000", "4,000"));
}

TEST(LinearTicks, CountedThingsHaveNoFractions) {
  EXPECT_THAT(labels(linear_ticks(0, 1, 10, true)), ElementsAre("0", "1"));
  EXPECT_THAT(labels(linear_ticks(0.5, 1.5, 10, true)), ElementsAre("1"));
}

TEST(LinearTicks, OneAloneGivesNoScale) {
  EXPECT_THAT(labels(linear_ticks(-19, 19, 2)), ElementsAre("−10", "0", "10")) << "20 would leave 0 alone";
  EXPECT_THAT(labels(linear_ticks(-4.9, 4.9, 2)), ElementsAre("−4", "0", "4")) << "not five in place of one";
  EXPECT_THAT(labels(linear_ticks(0.11, 0.19, 1)), ElementsAre("0.12", "0.16"));
}

TEST(LinearTicks, ExtremesStayReadable) {
  EXPECT_THAT(labels(linear_ticks(0, 2e-7, 2)), ElementsAre("0", "1e−07", "2e−07"));
  EXPECT_EQ(linear_ticks(5, 5, 5).size(), 1U);
  EXPECT_THAT(linear_ticks(1, 0, 5), IsEmpty());
  EXPECT_THAT(linear_ticks(0, std::numeric_limits<double>::infinity(), 5), IsEmpty());
  EXPECT_THAT(linear_ticks(std::nan(""), 1, 5), IsEmpty());
}

TEST(LinearTicks, NeverManyMoreThanWanted) {
  for (double high = 1e-12; high < 1e12; high *= 1.7)
    for (const int wanted : {1, 2, 3, 7}) {
      const auto ticks = linear_ticks(-high / 3, high, wanted);
      EXPECT_GE(ticks.size(), 2U) << high;
      EXPECT_LE(ticks.size(), static_cast<std::size_t>(std::max(3, wanted + 1))) << high;
      for (const Tick& tick : ticks)
        EXPECT_TRUE(tick.value >= -high / 3 * 1.001 && tick.value <= high * 1.001);
    }
}

TEST(LogarithmicTicks, ArePowersOfTen) {
  EXPECT_THAT(labels(logarithmic_ticks(1e-5, 1, 6)),
              ElementsAre("10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1"));
  EXPECT_THAT(labels(logarithmic_ticks(1e-5, 1, 3)), ElementsAre("10⁻⁵", "0.001", "0.1"));
  EXPECT_THAT(logarithmic_ticks(0, 1, 3), IsEmpty());
}

TEST(FormatCount, GroupsThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
}

TEST(FormatSigned, HasAMinusSignAndNoneBeforeZero) {
  EXPECT_EQ(format_signed(0.9134, 3), "0.913");
  EXPECT_EQ(format_signed(-0.2, 3), "−0.200");
  EXPECT_EQ(format_signed(-0.004, 2), "0.00");
  EXPECT_EQ(format_signed(-0.4, 0), "0");
}

TEST(FormatValue, HasMinusSigns) {
  EXPECT_EQ(format_value(0.05), "0.05");
  EXPECT_EQ(format_value(-1.23456e-5), "−1.235e−05");
  EXPECT_EQ(format_value(0), "0");
}

TEST(FormatShare, NeverRoundsAwayWhatThereIs) {
  EXPECT_EQ(format_share(0.1234, 1), "12.3 %");
  EXPECT_EQ(format_share(0, 1), "0.0 %");
  EXPECT_EQ(format_share(0.0006, 1), "0.1 %");
  EXPECT_EQ(format_share(0.0004, 1), "< 0.1 %");
  EXPECT_EQ(format_share(1e-9, 2), "< 0.01 %");
}

}  // namespace
}  // namespace keyscope::figures

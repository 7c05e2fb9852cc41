#include "app/commands/sparkline.hpp"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace keyscope::commands {
namespace {

TEST(Sparkline, HeightsGoFromLowToHigh) {
  const std::array<std::optional<double>, 5> values{-1.0, -0.01, 0.01, 0.99, 1.0};
  EXPECT_EQ(sparkline(values, -1, 1), "▁▄▅██");
}

TEST(Sparkline, WhatIsOutsideTakesTheNearestEndAndWhatIsNotThereADot) {
  const std::array<std::optional<double>, 4> values{-3.0, 3.0, std::nullopt,
                                                    std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(sparkline(values, -1, 1), "▁█··");
  EXPECT_EQ(sparkline({}, -1, 1), "");
}

}  // namespace
}  // namespace keyscope::commands

#include "base/interval_text.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace keyscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(IntervalText, HasAsManyDigitsAsItsWidthTakes) {
  EXPECT_EQ(interval_text(0.1, 0.3), "[0.100, 0.300]");
  EXPECT_EQ(interval_text(0.98712, 0.98734), "[0.9871, 0.9873]");
  EXPECT_EQ(interval_text(0.98749, 0.98751), "[0.98749, 0.98751]") << "not [0.987, 0.988], 50 times as wide";
  EXPECT_EQ(interval_text(-280.4612, -280.4601), "[−280.461, −280.460]");
  EXPECT_EQ(interval_text(1.21e-5, 1.24e-5), "[1.21e−05, 1.24e−05]");
  EXPECT_EQ(interval_text(2e-4, 0.02), "[0.0002, 0.020]") << "an end above zero is not printed as zero";
  EXPECT_EQ(interval_text(8.3e-5, 9e-4), "[0.0001, 0.0009]");
  EXPECT_EQ(interval_text(2e-6, 9e-4), "[2e−06, 0.0009]");
  EXPECT_EQ(interval_text(kNaN, kNaN), "–");
}

TEST(IntervalText, OfOnePointIsOnePoint) {
  EXPECT_EQ(interval_text(0.25, 0.25), "[0.250, 0.250]");
  EXPECT_EQ(mean_text(0, 0, 0, 1), "0.0 [0.0, 0.0]");
  EXPECT_EQ(interval_decimals(2, 2, 3), 3);
}

TEST(IntervalText, AMeanHasTheDigitsOfItsInterval) {
  EXPECT_EQ(mean_text(0.98724, 0.98712, 0.98734), "0.9872 [0.9871, 0.9873]");
  EXPECT_EQ(mean_text(177.31, 176.9, 177.7), "177.3 [176.9, 177.7]");
  EXPECT_EQ(mean_text(0.25, kNaN, kNaN), "0.250");
  EXPECT_EQ(mean_text(kNaN, kNaN, kNaN), "–");
  EXPECT_EQ(mean_text(97.124, 97.1201, 97.1302, 1), "97.12 [97.12, 97.13]");
  EXPECT_EQ(mean_text(-0.2, -1.5, 0.3, 1), "−0.2 [−1.5, 0.3]");
  EXPECT_EQ(mean_text(12.5, kNaN, kNaN, 1), "12.5");
}

// Whatever its size and width, an interval's ends differ in print, by no more than one unit from what they
// are.
TEST(IntervalText, IsNeverRoundedToNothing) {
  std::mt19937_64 draw(20);
  for (int i = 0; i < 20'000; ++i) {
    const auto uniform = [&] { return static_cast<double>(draw() >> 11U) * 0x1p-53; };
    const double low = (uniform() - 0.5) * std::pow(10, 8 * uniform() - 5);
    const double high = low + std::abs(low) * std::pow(10, -8 * uniform());
    if (!(high > low)) continue;
    const std::string text = interval_text(low, high);
    const auto comma = text.find(", ");
    ASSERT_NE(comma, std::string::npos);
    EXPECT_NE(text.substr(1, comma - 1), text.substr(comma + 2, text.size() - comma - 3))
        << low << " " << high;
  }
}

}  // namespace
}  // namespace keyscope

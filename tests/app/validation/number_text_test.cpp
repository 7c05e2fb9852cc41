#include "app/validation/number_text.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace keyscope::validation {
namespace {

constexpr auto kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(NumberText, HasDecimalsByItsSize) {
  EXPECT_EQ(number_text(0.12345), "0.123");
  EXPECT_EQ(number_text(-12.345), "−12.35");
  EXPECT_EQ(number_text(280.46), "280.5");
  EXPECT_EQ(number_text(0), "0.000");
  EXPECT_EQ(number_text(-1.24e-5), "−1.2e−05");
  EXPECT_EQ(number_text(kNaN), "–");
}

TEST(NumberText, AnIntervalNeedsTwoSamples) {
  EXPECT_EQ(interval_text({0.2, 0.1, 0.3, 5}), "[0.100, 0.300]");
  EXPECT_EQ(interval_text({0.2, kNaN, kNaN, 1}), "–");
}

}  // namespace
}  // namespace keyscope::validation

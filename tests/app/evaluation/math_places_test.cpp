#include "app/evaluation/math_places.hpp"

#include <functional>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace keyscope::evaluation {
namespace {

using Complex = std::complex<double>;

TEST(MathPlaces, AVariableHasValuesOfItsOwnEverywhere) {
  std::set<double> seen;
  for (const char* name : {"x", "y", "X", "alpha"})
    for (const Complex value : variable(name)) {
      EXPECT_EQ(value.imag(), 0);
      EXPECT_GE(value.real(), 0.5);
      EXPECT_LT(value.real(), 1.5);
      seen.insert(value.real());
    }
  EXPECT_EQ(seen.size(), 4 * kValuePlaces);
  EXPECT_EQ(variable("x"), variable("x"));
}

TEST(MathPlaces, AreCombinedPlaceByPlace) {
  const MathValues x = variable("x");
  const MathValues sum = combined(x, everywhere(2), std::plus<>());
  for (std::size_t place = 0; place < kValuePlaces; ++place) EXPECT_EQ(sum[place], x[place] + 2.0);
}

TEST(MathPlaces, WholePowersOfWholeNumbersAreWhole) {
  EXPECT_EQ(power(3, 20), Complex(3486784401));
  EXPECT_EQ(power(-2, 3), Complex(-8));
  EXPECT_NEAR(std::abs(power(-1, 0.5) - Complex(0, 1)), 0, 1e-15);
}

TEST(MathPlaces, FactorialsAreOfWholeNumbersThatADoubleHolds) {
  EXPECT_EQ(factorial(everywhere(0)), everywhere(1));
  EXPECT_EQ(factorial(everywhere(5)), everywhere(120));
  EXPECT_TRUE(factorial(everywhere(170)));
  for (const Complex number : {Complex(171), Complex(-1), Complex(1.5), Complex(0, 1)})
    EXPECT_EQ(factorial(everywhere(number)), std::nullopt) << number;
}

TEST(MathPlaces, OneThatIsNoNumberIsTold) {
  MathValues values = everywhere(1);
  EXPECT_TRUE(finite(values));
  values.back() = {0, std::numeric_limits<double>::infinity()};
  EXPECT_FALSE(finite(values));
}

TEST(MathPlaces, AgreeToABillionth) {
  EXPECT_TRUE(agree(everywhere(1e6), everywhere(1e6 + 1e-4)));
  EXPECT_FALSE(agree(everywhere(1e6), everywhere(1e6 + 1e-2)));
  EXPECT_FALSE(agree(everywhere(1e-12), everywhere(2e-12)));
  EXPECT_TRUE(agree(everywhere(1e-12), everywhere(1e-12 * (1 + 1e-10))));
  EXPECT_FALSE(agree(everywhere(0), everywhere(1e-13)));
  MathValues one_off = everywhere(1);
  one_off.front() += 1e-6;
  EXPECT_FALSE(agree(one_off, everywhere(1)));
}

// x - x(1 + 1/10^15), say.
TEST(MathPlaces, AgreeWhereRoundingAloneIsLeft) {
  EXPECT_TRUE(agree(everywhere(4e-16), everywhere(0)));
  MathValues rounded = everywhere(0);
  rounded.back() = 1e-12;
  EXPECT_TRUE(agree(rounded, everywhere(0)));
  rounded.back() = 1e-8;
  EXPECT_FALSE(agree(rounded, everywhere(0)));
}

}  // namespace
}  // namespace keyscope::evaluation

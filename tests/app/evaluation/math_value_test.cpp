#include "app/evaluation/math_value.hpp"

#include <cmath>
#include <numbers>
#include <string>

#include <gtest/gtest.h>

namespace keyscope::evaluation {
namespace {

// Of an expression without variables: the same at all places.
std::complex<double> constant(std::string_view latex) {
  const auto values = math_values(latex);
  if (!values) return std::nan("");
  for (const auto& value : *values) EXPECT_EQ(value, values->front()) << latex;
  return values->front();
}

bool same(std::string_view first, std::string_view second) {
  const auto a = math_values(first), b = math_values(second);
  EXPECT_TRUE(a && b) << first << " and " << second;
  return a && b && agree(*a, *b);
}

TEST(MathValue, ReadsNumbers) {
  EXPECT_EQ(constant("2"), 2.0);
  EXPECT_EQ(constant("-.5"), -0.5);
  EXPECT_EQ(constant("+-2"), -2.0);
  EXPECT_EQ(constant("1+2*3-4/8"), 6.5);
  EXPECT_EQ(constant("2^{10}"), 1024.0);
  EXPECT_EQ(constant("-2^2"), -4.0);
  EXPECT_EQ(constant("2^{3^2}"), 512.0);
  EXPECT_EQ(constant("4!"), 24.0);
  EXPECT_EQ(constant("\\frac12"), 0.5);
  EXPECT_EQ(constant("\\dfrac{1}{2}"), 0.5);
  EXPECT_EQ(constant("3\\frac{1}{2}"), 3.5);
  EXPECT_EQ(constant("-3\\frac12"), -3.5);
  EXPECT_EQ(constant("2\\frac{x}{x}"), 2.0);
  EXPECT_EQ(constant("2 \\cdot (3 + 4)[5]"), 70.0);
  EXPECT_EQ(constant("|2 - 5||-2|"), 6.0);
  EXPECT_NEAR(std::abs(constant("\\sqrt[3]{8}") - 2.0), 0, 1e-12);
  EXPECT_NEAR(std::abs(constant("2\\pi") - 2 * std::numbers::pi), 0, 1e-12);
  EXPECT_NEAR(std::abs(constant("e^{i\\pi}") + 1.0), 0, 1e-12);
}

TEST(MathValue, TellsFunctionsApart) {
  EXPECT_TRUE(same("(x+1)^2", "x^2 + 2x + 1"));
  EXPECT_TRUE(same("\\left(x+1\\right)(x-1)", "x^2-1"));
  EXPECT_TRUE(same("\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2"));
  EXPECT_FALSE(same("x^2", "x^3"));
  EXPECT_FALSE(same("x", "y"));
  EXPECT_FALSE(same("x", "X"));
  EXPECT_FALSE(same("\\alpha", "\\beta"));
  EXPECT_FALSE(same("0.3333", "\\frac13"));
  EXPECT_FALSE(same("10^{10}", "10^{10}+100"));
}

TEST(MathValue, LeavesWhatIsNoExpression) {
  for (const char* text :
       {"",        " ",    "two",   "1,2",       "(1,2)",   "(1",        "1)",    "|1",    "1 2", "1..2",
        ".",       "2^",   "2^^3",  "\\frac{1}", "\\sin x", "\\text{a}", "204_5", "x=2",   "1/0", "0^{-1}",
        "\\infty", "171!", "(-1)!", "\\",        "\\frac",  "2+",        "*2",    "\u00bd"})
    EXPECT_EQ(math_values(text), std::nullopt) << text;
}

TEST(MathValue, OfDeepNestsIsNone) {
  EXPECT_EQ(math_values(std::string(100'000, '(')), std::nullopt);
  EXPECT_EQ(math_values(std::string(100'000, '{') + "1" + std::string(100'000, '}')), std::nullopt);
  std::string roots;
  for (int i = 0; i < 100'000; ++i) roots += "\\sqrt";
  EXPECT_EQ(math_values(roots), std::nullopt);
  EXPECT_TRUE(math_values(std::string(100'000, '-') + "1"));
}

}  // namespace
}  // namespace keyscope::evaluation

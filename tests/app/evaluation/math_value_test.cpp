#include "app/evaluation/math_value.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/math_normal.hpp"
#include "base/errors.hpp"
#include "tests/app/evaluation/made_results.hpp"

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

TEST(MathScanner, PassesWhatWritesNothing) {
  MathScanner scan(" \t\\left{}\\, \\!( \\right)\\ ");
  EXPECT_EQ(scan.peek(), '(');
  EXPECT_TRUE(scan.take("("));
  EXPECT_TRUE(scan.take(")"));
  EXPECT_EQ(scan.peek(), '\0');
}

TEST(MathScanner, TakesCommandsAsAWhole) {
  MathScanner scan("\\cdots\\leftarrow");
  EXPECT_FALSE(scan.take("\\cdot"));
  EXPECT_TRUE(scan.take("\\cdots"));
  EXPECT_EQ(scan.peek(), '\\');
  EXPECT_EQ(scan.rest(), "\\leftarrow");
  MathScanner before_digit("\\cdot2");
  EXPECT_TRUE(before_digit.take("\\cdot"));
  EXPECT_EQ(before_digit.peek(), '2');
}

TEST(MathScanner, TakesDigitsThatStandTogether) {
  MathScanner scan("12.5 3x");
  EXPECT_EQ(scan.take_digits(false), "12");
  EXPECT_EQ(scan.take_digits(false), "");
  EXPECT_EQ(scan.take_digits(true), ".5");
  EXPECT_EQ(scan.take_digits(true), "") << "a space is between them";
  EXPECT_EQ(scan.peek(), '3');
  EXPECT_EQ(scan.take_digits(true), "3");
  MathScanner one_by_one("345");
  EXPECT_EQ(one_by_one.take_digits(false, 1), "3");
  EXPECT_EQ(one_by_one.take_digits(false, 0), "");
  EXPECT_EQ(one_by_one.take_digits(false), "45");
}

TEST(MathScanner, CountsLettersWithoutTakingThem) {
  const MathScanner scan("two1");
  EXPECT_EQ(scan.letters_here(), 3U);
  EXPECT_EQ(scan.rest(), "two1");
  EXPECT_EQ(MathScanner("1two").letters_here(), 0U);
}

TEST(MathScanner, ComesBackToWhereItStood) {
  MathScanner scan("a b");
  scan.take_one();
  const std::size_t place = scan.place();
  EXPECT_TRUE(scan.take("b"));
  scan.return_to(place);
  EXPECT_EQ(scan.peek(), 'b');
}

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

TEST(MathNormal, EqualsTheHarness) {
  const nlohmann::json goldens = read_goldens("math_goldens.json", "answers");
  ASSERT_GT(goldens.size(), 100U);
  for (const auto& golden : goldens) {
    const auto text = golden["text"].get<std::string>();
    SCOPED_TRACE(text);
    EXPECT_EQ(minerva_normal(text), golden["minerva"].get<std::string>());
    const auto hendrycks = hendrycks_normal(text);
    const auto& expected = golden["hendrycks"];
    EXPECT_EQ(hendrycks, expected.is_null() ? std::nullopt : std::optional(expected.get<std::string>()));
  }
}

TEST(Substitution, ReplacesAllMatches) {
  EXPECT_EQ(Substitution("a(.)", "<$1>").apply("abac"), "<b><c>");
  EXPECT_EQ(Substitution("x", "$$").apply("xyx"), "$y$");
  EXPECT_EQ(Substitution("x", "").apply(""), "");
  EXPECT_EQ(Substitution(R"(\w+)", "w").apply("caf\u00e9 \u4f60\u597d"), "w w");
}

TEST(Substitution, GrowsAsFarAsTheTextDoes) {
  const std::string text(1000, 'x');
  EXPECT_EQ(Substitution("x", "0123456789").apply(text).size(), 10'000U);
}

TEST(Substitution, ReadsIllFormedBytesAsReplacementCharacters) {
  EXPECT_EQ(Substitution("b", "c").apply("a\xFF"
                                         "b"),
            "a\xEF\xBF\xBD"
            "c");
}

TEST(Substitution, RefusesWhatDoesNotCompile) { EXPECT_THROW(Substitution("a(", ""), InvalidInput); }

TEST(ReplaceAll, GoesOnBehindWhatItPutIn) {
  EXPECT_EQ(replace_all("aaa", "a", "aa"), "aaaaaa");
  EXPECT_EQ(replace_all("\\\\\\", "\\\\", "\\"), "\\\\");
  EXPECT_EQ(replace_all("ffttt", "ft", ""), "ftt");
}

}  // namespace

}  // namespace keyscope::evaluation

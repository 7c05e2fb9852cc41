#include "app/evaluation/math_scanner.hpp"

#include <gtest/gtest.h>

namespace keyscope::evaluation {
namespace {

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

}  // namespace
}  // namespace keyscope::evaluation

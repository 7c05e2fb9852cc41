#include "app/validation/verdict.hpp"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::validation {
namespace {

using analysis::BootstrapMean;
using ::testing::HasSubstr;

constexpr auto kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Verdict, GoesByWhereTheWholeIntervalLies) {
  const BootstrapMean above{0.2, 0.1, 0.3, 20}, across{0.1, -0.1, 0.3, 20}, below{-0.2, -0.3, -0.1, 20};
  EXPECT_EQ(judge(above, Side::kAbove), Verdict::kSupported);
  EXPECT_EQ(judge(across, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge(below, Side::kAbove), Verdict::kNotSupported);
  EXPECT_EQ(judge(above, Side::kBelow), Verdict::kNotSupported);
  EXPECT_EQ(judge(across, Side::kBelow), Verdict::kCannotTell);
  EXPECT_EQ(judge(below, Side::kBelow), Verdict::kSupported);
}

TEST(Verdict, ZeroIsOnNoClaimedSide) {
  EXPECT_EQ(judge({0.1, 0, 0.2, 20}, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge({-0.1, -0.2, 0, 20}, Side::kAbove), Verdict::kNotSupported);
  EXPECT_EQ(judge({-0.1, -0.2, 0, 20}, Side::kBelow), Verdict::kCannotTell);
  EXPECT_EQ(judge({0.1, 0, 0.2, 20}, Side::kBelow), Verdict::kNotSupported);
  EXPECT_EQ(judge({0, 0, 0, 20}, Side::kAbove), Verdict::kNotSupported);
}

TEST(Verdict, TooFewPromptsSayNothing) {
  EXPECT_EQ(judge({0.2, 0.1, 0.3, kLeastPrompts - 1}, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge({0.2, 0.1, 0.3, kLeastPrompts}, Side::kAbove), Verdict::kSupported);
  EXPECT_EQ(judge({kNaN, kNaN, kNaN, 0}, Side::kAbove), Verdict::kCannotTell);
  EXPECT_EQ(judge({0.2, kNaN, kNaN, 1}, Side::kBelow), Verdict::kCannotTell);
}

TEST(Verdict, OneViolationRefutesABound) {
  EXPECT_EQ(judge_bound(1000, 0), Verdict::kSupported);
  EXPECT_EQ(judge_bound(1000, 1), Verdict::kNotSupported);
  EXPECT_EQ(judge_bound(0, 0), Verdict::kCannotTell);
}

TEST(Verdict, OfSeveralPartsAllMustBeSupported) {
  using enum Verdict;
  EXPECT_EQ(judge_all(std::array{kSupported, kSupported}), kSupported);
  EXPECT_EQ(judge_all(std::array{kSupported, kCannotTell}), kCannotTell);
  EXPECT_EQ(judge_all(std::array{kCannotTell, kNotSupported, kSupported}), kNotSupported);
  EXPECT_EQ(judge_all({}), kCannotTell);
}

TEST(Verdict, TheRuleSaysWhichEnd) {
  EXPECT_THAT(rule_text(Side::kAbove), HasSubstr("supported if the interval's low end is above 0; not"));
  EXPECT_THAT(rule_text(Side::kBelow), HasSubstr("supported if the interval's high end is below 0; not"));
}

TEST(Verdict, StrengthGoesByTheSizeOfACorrelation) {
  EXPECT_EQ(strength_name(0.05), "negligible");
  EXPECT_EQ(strength_name(-0.2), "weak");
  EXPECT_EQ(strength_name(0.5), "moderate");
  EXPECT_EQ(strength_name(-0.8), "strong");
  EXPECT_EQ(strength_name(0.94), "very strong");
  EXPECT_EQ(strength_name(kNaN), "unknown");
}

}  // namespace
}  // namespace keyscope::validation

#include "app/evaluation/math_answer.hpp"

#include <string>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {

namespace {

TEST(BoxedAnswer, EqualsTheHarness) {
  for (const auto& golden : read_goldens("math_goldens.json", "boxed")) {
    const auto expected = golden["answer"];
    EXPECT_EQ(boxed_answer(golden["text"].get<std::string>()),
              expected.is_null() ? std::nullopt : std::optional(expected.get<std::string>()))
        << json_text(golden);
  }
}

TEST(StatedAnswer, OfNumbersAloneEqualsFlexibleExtract) {
  for (const auto& golden : read_goldens("math_goldens.json", "numbers"))
    EXPECT_EQ(stated_answer(golden["text"].get<std::string>()), golden["answer"].get<std::string>())
        << json_text(golden);
}

TEST(BoxedAnswer, IsTheLastWithItsBraces) {
  EXPECT_EQ(boxed_answer(R"(so $\boxed{\frac{1}{2}}$.)"), R"(\frac{1}{2})");
  EXPECT_EQ(boxed_answer(R"(\boxed{1} and then \boxed{2})"), "2");
  EXPECT_EQ(boxed_answer(R"(\fbox{1} and \boxed{2} and \fbox{3})"), "2");
  EXPECT_EQ(boxed_answer(R"(\fbox{1})"), "1");
  EXPECT_EQ(boxed_answer(R"(\boxed{})"), "");
}

TEST(BoxedAnswer, NeedsNoBraces) {
  EXPECT_EQ(boxed_answer(R"(it is $\boxed 5$ then)"), "5");
  EXPECT_EQ(boxed_answer("\\boxed 5 \nmore"), "5");
}

TEST(BoxedAnswer, IsNoneWhereTheTextEndsTooEarly) {
  EXPECT_EQ(boxed_answer(R"(\boxed{1} or \boxed{\frac{1}{2)"), std::nullopt);
  EXPECT_EQ(boxed_answer(R"(\boxed)"), std::nullopt);
  EXPECT_EQ(boxed_answer("7"), std::nullopt);
}

TEST(StatedAnswer, IsWhatAnnouncesItself) {
  EXPECT_EQ(stated_answer(R"(The answer is 3. No: \boxed{4}. 5)"), "4");
  EXPECT_EQ(stated_answer("First 12. The final Answer is: $3.5$. I hope it is correct."), "$3.5$");
  EXPECT_EQ(stated_answer("**Answer:** 42\n\nBecause 6 * 7."), "42");
  EXPECT_EQ(stated_answer("The answer is 1.\nThe answer is 2."), "2");
}

TEST(StatedAnswer, StandsInAnyDelimitersOfFormulas) {
  EXPECT_EQ(stated_answer("The answer is $$5$$."), "$5$");
  EXPECT_EQ(stated_answer("The final answer is:\n$$\n5\n$$\nwhere $x$ is 1"), "$5$");
  EXPECT_EQ(stated_answer(R"(The answer is \(\frac{1}{2}\). Or 7)"), R"($\frac{1}{2}$)");
  EXPECT_EQ(stated_answer(R"(Hence \[ a \\[2pt] b \])"), R"(a \\[2pt] b)");
  EXPECT_EQ(stated_answer(R"($x$ is $\$5$)"), R"(\$5)");
  EXPECT_EQ(stated_answer("$5$$6$"), "6");
}

TEST(StatedAnswer, IsNoFormulaWhereNothingClosesIt) {
  EXPECT_EQ(stated_answer("so $$5"), "$$5");
  EXPECT_EQ(stated_answer(R"(for $\(5\))"), "5");
  EXPECT_EQ(stated_answer(R"(so \[5)"), "5");
  EXPECT_EQ(stated_answer(R"(from \$5 to \$7)"), "$7");
  EXPECT_EQ(stated_answer(R"(The answer is \$7.)"), R"(\$7)");
  EXPECT_EQ(stated_answer("The answer is\n\nthat we have 5"), "5");
  EXPECT_EQ(stated_answer("\\"), std::nullopt);
}

TEST(StatedAnswer, ElseTheLastFormulaElseTheLastNumber) {
  EXPECT_EQ(stated_answer("from $x$ we get $ x+1 $, I think, 7 times"), "x+1");
  EXPECT_EQ(stated_answer("it costs $5 and then some"), "$5");
  EXPECT_EQ(stated_answer("6 - 2 = -4"), "-4");
  EXPECT_EQ(stated_answer("about 1,234.5"), "1,234.5");
  EXPECT_EQ(stated_answer("well..."), std::nullopt);
  EXPECT_EQ(stated_answer(""), std::nullopt);
}

std::string boxed(const std::string& answer) { return "so \\boxed{" + answer + "}"; }

TEST(ExactMatch, EqualsTheHarness) {
  int n_equal = 0;
  for (const auto& golden : read_goldens("math_goldens.json", "equal")) {
    const auto first = golden[0].get<std::string>(), second = golden[1].get<std::string>();
    EXPECT_EQ(exact_match(boxed(first), second), golden[2].get<bool>()) << first << " and " << second;
    n_equal += golden[2].get<bool>() ? 1 : 0;
  }
  EXPECT_GT(n_equal, 20);
}

TEST(ExactMatch, NeedsABox) {
  EXPECT_TRUE(exact_match("\\boxed{7}", "7"));
  EXPECT_FALSE(exact_match("The answer is 7", "7"));
  EXPECT_FALSE(exact_match("\\boxed{7", "7"));
}

TEST(FlexibleMatch, OfExpressionsEqualsMathVerify) {
  int n_same = 0, n_other = 0;
  for (const auto& golden : read_goldens("math_goldens.json", "same")) {
    const auto first = golden[0].get<std::string>(), second = golden[1].get<std::string>();
    EXPECT_EQ(same_answer(first, second), golden[2].get<bool>()) << first << " and " << second;
    ++(golden[2].get<bool>() ? n_same : n_other);
  }
  EXPECT_GT(n_same, 50);
  EXPECT_GT(n_other, 50);
}

TEST(FlexibleMatch, TakesTheSameWrittenOtherwise) {
  const std::pair<const char*, const char*> same[]{{"0.5", "\\frac{1}{2}"},
                                                   {"\\frac{\\sqrt3}2", "\\sqrt{3}/2"},
                                                   {"1+x", "x+1"},
                                                   {"50\\%", "50"},
                                                   {"12 square feet", "12"},
                                                   {"2,1", "1,2"},
                                                   {"\\{2, 1\\}", "\\{1,2\\}"},
                                                   {"\\text{(C)}", "C"},
                                                   {"\\text{Even}", "even"},
                                                   {"(0.5, 2)", "\\left(\\frac12, 2\\right)"},
                                                   {"32,348", "32348"},
                                                   {"x = 3", "3"},
                                                   {"(-\\infty, 0.5]", "(-\\infty, \\frac{1}{2}]"}};
  for (const auto& [first, second] : same) EXPECT_TRUE(flexible_match(boxed(first), second)) << first;
}

TEST(FlexibleMatch, KeepsOthersApart) {
  const std::pair<const char*, const char*> others[]{
      {"(2,1)", "(1,2)"}, {"(1,2)", "[1,2]"}, {"(1,2]", "(1,2)"}, {"1,2", "(1,2)"},      {"1,2", "1,2,3"},
      {"1,1,2", "1,2,2"}, {"0.33", "1/3"},    {"even", "odd"},    {"\\text{ cm}", "cm"}, {"", "5"}};
  for (const auto& [first, second] : others) EXPECT_FALSE(flexible_match(boxed(first), second)) << first;
}

TEST(FlexibleMatch, FindsTheAnswerOutsideABox) {
  EXPECT_TRUE(flexible_match("The answer is $\\frac{1}{2}$.", "0.5"));
  EXPECT_TRUE(flexible_match("therefore 3 + 4 = 7", "7"));
  EXPECT_FALSE(flexible_match("I do not know", "7"));
}

TEST(FlexibleMatch, FindsTheAnswerInAnyDelimiters) {
  const std::pair<const char*, const char*> solved[]{{"The answer is $$5$$.", "5"},
                                                     {"The final answer is:\n$$5$$", "5"},
                                                     {"so we get\n$$x = 5$$", "5"},
                                                     {"so we get $$\\frac{1}{2}$$", "\\frac{1}{2}"},
                                                     {"The answer is \\(\\frac{1}{2}\\).", "\\frac{1}{2}"},
                                                     {"Hence\n\\[ \\frac{1}{2} \\]", "\\frac{1}{2}"},
                                                     {"The answer is: \\[5\\]", "5"},
                                                     {"The answer is therefore $$5$$, as it was.", "5"},
                                                     {"He pays \\$5 at first, so in the end \\$7", "7"}};
  for (const auto& [solution, answer] : solved) EXPECT_TRUE(flexible_match(solution, answer)) << solution;
}

TEST(FlexibleMatch, TakesACommaWithASpaceForAList) {
  const std::pair<const char*, const char*> same[]{{"200, 100", "100, 200"},
                                                   {"1,000", "1000"},
                                                   {"100,000, 5", "5, 100000"},
                                                   {"(1,000, 2)", "(1000,2)"},
                                                   {"200,\\ 100", "100, 200"},
                                                   {"200 \\text{ and } 100", "100, 200"},
                                                   {"(100,200), (3,4)", "(3, 4), (100, 200)"},
                                                   {"\\text{b}, \\text{a}", "a,b"},
                                                   {"1, 2, \\dots", "1,2"}};
  for (const auto& [first, second] : same) EXPECT_TRUE(flexible_match(boxed(first), second)) << first;
  const std::pair<const char*, const char*> others[]{
      {"100, 200", "100200"}, {"100,000, 5", "100, 0, 5"}, {"1, 000", "1000"}, {"1,2, 3", "12, 3"}};
  for (const auto& [first, second] : others) EXPECT_FALSE(flexible_match(boxed(first), second)) << first;
}

TEST(FlexibleMatch, TellsNumbersApartWhateverTheirSize) {
  const std::pair<const char*, const char*> others[]{{"10000000001", "10000000000"},
                                                     {"18446744073709551617", "18446744073709551616"},
                                                     {"10,000,000,001, 5", "5, 10000000000"},
                                                     {"-1", "1"},
                                                     {"0", "10^{-12}"},
                                                     {"2^{-40}", "2^{-41}"}};
  for (const auto& [first, second] : others) EXPECT_FALSE(flexible_match(boxed(first), second)) << first;
  const std::pair<const char*, const char*> same[]{{"+007", "7"},
                                                   {"-0", "0"},
                                                   {"-07", "-7"},
                                                   {"10,000,000,000", "10000000000"},
                                                   {"2^{-40}", "\\frac{1}{2^{40}}"},
                                                   {"\\sqrt{2}-\\sqrt{2}", "0"},
                                                   {"\\sqrt{8}-2\\sqrt{2}", "0"},
                                                   {"10^{-12}", "\\frac{1}{10^{12}}"}};
  for (const auto& [first, second] : same) EXPECT_TRUE(flexible_match(boxed(first), second)) << first;
}

TEST(FlexibleMatch, IncludesExactMatches) {
  for (const auto& golden : read_goldens("math_goldens.json", "equal")) {
    const auto first = golden[0].get<std::string>(), second = golden[1].get<std::string>();
    EXPECT_GE(flexible_match(boxed(first), second), exact_match(boxed(first), second))
        << first << " and " << second;
  }
}

}  // namespace

}  // namespace keyscope::evaluation

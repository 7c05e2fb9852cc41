#include "app/evaluation/math_answer.hpp"

#include <gtest/gtest.h>

#include "tests/app/evaluation/evaluation_goldens.hpp"

namespace keyscope::evaluation {
namespace {

TEST(BoxedAnswer, EqualsTheHarness) {
  for (const auto& golden : read_goldens("math_goldens.json", "boxed")) {
    const auto expected = golden["answer"];
    EXPECT_EQ(boxed_answer(golden["text"].get<std::string>()),
              expected.is_null() ? std::nullopt : std::optional(expected.get<std::string>()))
        << golden.dump();
  }
}

TEST(StatedAnswer, OfNumbersAloneEqualsFlexibleExtract) {
  for (const auto& golden : read_goldens("math_goldens.json", "numbers"))
    EXPECT_EQ(stated_answer(golden["text"].get<std::string>()), golden["answer"].get<std::string>())
        << golden.dump();
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

}  // namespace
}  // namespace keyscope::evaluation

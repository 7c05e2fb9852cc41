#include "app/results/budget.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::results {
namespace {

TEST(Budget, RowsAreTheSameForEveryPrompt) {
  const Budget budget = parse_budget("64");
  EXPECT_EQ(budget.rows_for(100), 64);
  EXPECT_EQ(budget.rows_for(4000), 64);
  EXPECT_EQ(budget.text(), "64");
}

TEST(Budget, AShareIsRoundedHalfUpAndNeverNothing) {
  const Budget budget = parse_budget("0.25");
  EXPECT_EQ(budget.rows_for(100), 25);
  EXPECT_EQ(budget.rows_for(102), 26);
  EXPECT_EQ(budget.rows_for(101), 25);
  EXPECT_EQ(budget.rows_for(1), 1);
  EXPECT_EQ(budget.text(), "0.25");
  EXPECT_EQ(parse_budget("25%").rows_for(102), 26);
  EXPECT_EQ(parse_budget("12.5%").text(), "0.125");
}

// Against whole numbers, for every whole percent.
TEST(Budget, HalfARowIsRoundedUpWhateverTheShare) {
  for (std::int64_t percent = 1; percent <= 100; ++percent) {
    const Budget budget = parse_budget(std::to_string(percent) + "%");
    for (std::int64_t n = 1; n <= 1000; ++n)
      ASSERT_EQ(budget.rows_for(n), std::max<std::int64_t>(1, (2 * percent * n + 100) / 200))
          << percent << " % of " << n;
  }
}

TEST(Budget, AllOfThePromptIsAShare) {
  for (const char* text : {"100%", "1.0"}) {
    const Budget budget = parse_budget(text);
    EXPECT_EQ(budget.rows_for(77), 77);
    EXPECT_EQ(parse_budget(budget.text()).rows_for(77), 77);
  }
  EXPECT_EQ(parse_budget("1").rows_for(77), 1);
}

TEST(Budget, AnythingElseIsRefused) {
  for (const char* text : {"", "0", "-3", "1.5", "0.0", "101%", "0%", "25%%", "%", "64 rows", "nan", "x"})
    EXPECT_THROW(parse_budget(text), UsageError) << text;
}

}  // namespace
}  // namespace keyscope::results

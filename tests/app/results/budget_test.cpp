#include "app/results/budget.hpp"

#include <gtest/gtest.h>

#include "analysis/errors.hpp"

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

TEST(Budget, AnythingElseIsRefused) {
  for (const char* text :
       {"", "0", "-3", "1.5", "1.0", "0.0", "100%", "0%", "25%%", "%", "64 rows", "nan", "x"})
    EXPECT_THROW(parse_budget(text), UsageError) << text;
}

}  // namespace
}  // namespace keyscope::results

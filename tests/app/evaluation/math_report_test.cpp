#include "app/evaluation/math_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::HasSubstr;

MathRow row(const char* subject, std::int64_t level) { return {"", "?", "1", subject, level}; }

// Three problems of two samples each. The full cache solves the second sample of each, and the first of the
// last; its answers have 2, 100 and 100 tokens, behind prompts of 40.
class MathReports : public ::testing::Test {
 protected:
  const std::vector<MathRow> rows_{row("Algebra", 1), row("Algebra", 2), row("Geometry", 2)};
  const std::vector<GridPoint> grid_ = [] {
    Settings settings = made_settings();
    settings.budgets = parse_budgets({"50", "1000"});
    return grid_of(settings);
  }();
  const std::vector<ExampleResult> results_ =
      made_results(6, grid_, [](std::size_t i, const GridPoint& point) {
        const bool solved = i % 2 == 1 || i == 4;
        const double flexible = solved && (!point.evicts() || i != 5) ? 1 : 0;
        return Scores{{"exact", i == 5 && !point.evicts() ? 1 : 0},
                      {"flexible", flexible},
                      {"generated", i < 2 ? 2 : 100}};
      });
  const std::vector<MathCell> cells_ = math_report(ScoreTable(results_, grid_), rows_, 2, 1);
};

TEST_F(MathReports, CountAProblemByTheMeanOfItsSamples) {
  ASSERT_EQ(cells_.size(), 6U);
  EXPECT_EQ(cells_[0].all.n, 3);
  EXPECT_DOUBLE_EQ(cells_[0].all.flexible.mean, 2 / 3.0);
  EXPECT_DOUBLE_EQ(cells_[0].all.exact.mean, 0.5 / 3);
  EXPECT_DOUBLE_EQ(cells_[1].all.flexible.mean, 0.5);
  EXPECT_DOUBLE_EQ(cells_[1].all.flexible_difference.mean, -0.5 / 3);
  EXPECT_DOUBLE_EQ(cells_[0].generated, 202 / 3.0);
}

TEST_F(MathReports, ProblemsOverBudgetAreThoseThatTheFullCacheOutgrowsItBy) {
  EXPECT_EQ(cells_[0].over_budget.n, 0);  // the full cache has no budget
  EXPECT_EQ(cells_[1].over_budget.n, 2);  // 40 + 100 > 50, and 40 + 2 is not
  EXPECT_DOUBLE_EQ(cells_[1].over_budget.flexible.mean, 0.5);
  EXPECT_EQ(cells_[2].over_budget.n, 0);  // 1000 rows
}

TEST_F(MathReports, PartByLevelAndSubject) {
  ASSERT_EQ(cells_[0].by_level.size(), 2U);
  EXPECT_EQ(cells_[0].by_level[1].first, "2");
  EXPECT_DOUBLE_EQ(cells_[0].by_level[1].second.flexible.mean, 0.75);
  ASSERT_EQ(cells_[0].by_subject.size(), 2U);
  EXPECT_EQ(cells_[0].by_subject[0].first, "Algebra");
  EXPECT_DOUBLE_EQ(cells_[0].by_subject[0].second.flexible.mean, 0.5);
}

TEST_F(MathReports, SayInJsonAndInATable) {
  const auto json = math_json(cells_, grid_);
  ASSERT_EQ(json["cells"].size(), 6U);
  EXPECT_EQ(json["cells"][1]["policy"], "keydiff");
  EXPECT_EQ(json["cells"][1]["budget"], 50);
  EXPECT_EQ(json["cells"][1]["n"], 3);
  EXPECT_EQ(json["cells"][1]["over_budget"]["n"], 2);
  EXPECT_TRUE(json["cells"][2]["over_budget"]["exact"].is_null());
  EXPECT_FALSE(json["cells"][0].contains("over_budget"));
  EXPECT_EQ(json["cells"][0]["by_level"]["1"]["flexible"], 0.5);
  EXPECT_THAT(math_table(cells_, grid_), HasSubstr("0.667 ("));
}

}  // namespace
}  // namespace keyscope::evaluation

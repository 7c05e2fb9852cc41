#include "app/evaluation/task_report.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::ElementsAre;

Settings two_policies() {
  Settings settings;
  settings.policies = parse_policies({"none", "keydiff", "h2o:recent=0.5"});
  settings.budgets = parse_budgets({"16", "25%"});
  settings.blocks = {8, 64};
  return settings;
}

TEST(Grid, NoneStandsOncePerBlockBeforeWhatIsComparedWithIt) {
  std::vector<std::string> points;
  for (const GridPoint& point : grid_of(two_policies()))
    points.push_back(point.policy + " " + point.budget_text + " " + std::to_string(point.block));
  EXPECT_THAT(points, ElementsAre("none  8", "keydiff 16 8", "keydiff 25% 8", "h2o:recent=0.5 16 8",
                                  "h2o:recent=0.5 25% 8", "none  64", "keydiff 16 64", "keydiff 25% 64",
                                  "h2o:recent=0.5 16 64", "h2o:recent=0.5 25% 64"));
}

TEST(Grid, BudgetsAreCountsOrSharesOfThePrompt) {
  const auto grid = grid_of(two_policies());
  EXPECT_EQ(grid[0].rows_for(102), 0);
  EXPECT_EQ(grid[1].rows_for(102), 16);
  EXPECT_EQ(grid[2].rows_for(102), 26);
}

TEST(Grid, WhatCannotBeIsRefused) {
  Settings settings = two_policies();
  settings.budgets.clear();
  EXPECT_THROW(check_grid(settings), UsageError);
  settings = two_policies();
  settings.blocks = {8, 8};
  EXPECT_THROW(check_grid(settings), UsageError);
  settings = two_policies();
  settings.policies.push_back(settings.policies.front());
  EXPECT_THROW(check_grid(settings), UsageError);
  EXPECT_NO_THROW(check_grid(two_policies()));
}

// Four examples under two grid points; example i scores i / 4 under the first, 1 under the second.
class Cells : public ::testing::Test {
 protected:
  void SetUp() override {
    Settings settings;
    settings.policies = parse_policies({"sink"});
    settings.budgets = parse_budgets({"50%"});
    settings.blocks = {8};
    grid_ = grid_of(settings);
    for (int i = 0; i < 4; ++i)
      for (int point = 0; point < 2; ++point) {
        ExampleResult result;
        result.budget = point == 0 ? 0 : 10 + i;
        result.scores = {{"recall", point == 0 ? i / 4.0 : 1.0}, {"exact", i % 2}};
        results_.push_back(result);
      }
  }
  std::vector<GridPoint> grid_;
  std::vector<ExampleResult> results_;
};

TEST_F(Cells, AreMeansOfTheirExamples) {
  const auto cells = cells_of(results_, grid_);
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_DOUBLE_EQ(cells[0].score("recall", Interval::kBootstrap, 0).mean, 0.375);
  EXPECT_DOUBLE_EQ(cells[1].score("recall", Interval::kBootstrap, 0).low, 1);
  EXPECT_DOUBLE_EQ(cells[0].score("exact", Interval::kWilson, 0).mean, 0.5);
  EXPECT_EQ(cells[0].budget_rows(), 0);
  EXPECT_EQ(cells[1].budget_rows(), 12);  // of 11.5
  EXPECT_THROW(cells[0].score("f1", Interval::kWilson, 0), InvalidInput);
  EXPECT_THROW(cells[0].score("recall", Interval::kWilson, 0), InvalidInput);
}

TEST_F(Cells, TakeTheExamplesThatAreWanted) {
  const auto cells = cells_of(results_, grid_, [](std::size_t example) { return example == 3; });
  ASSERT_EQ(cells[0].results.size(), 1U);
  const ScoreMean one = cells[0].score("recall", Interval::kBootstrap, 0);
  EXPECT_DOUBLE_EQ(one.mean, 0.75);
  EXPECT_TRUE(std::isnan(one.low));
  nlohmann::ordered_json report;
  add_score(report, "recall", one);
  EXPECT_EQ(json_text(report), R"({"recall":0.75,"recall_interval":[null,null]})");
}

// 10 · example + the budget + 100 in blocks of 8.
Scores drawn_score(std::size_t example, const GridPoint& point) {
  return {{"score", 10.0 * static_cast<double>(example) + static_cast<double>(point.rows_for(40)) +
                        (point.block == 8 ? 100 : 0)}};
}

TEST(ScoreTable, ComparesWithTheFullCacheOfTheSameBlock) {
  const auto grid = grid_of(made_settings());
  ASSERT_EQ(grid.size(), 6U);
  const auto results = made_results(3, grid, drawn_score);
  const ScoreTable table(results, grid);
  EXPECT_EQ(table.n_examples(), 3U);
  const std::vector<std::size_t> examples{2, 0};
  for (std::size_t point = 0; point < grid.size(); ++point) {
    EXPECT_FALSE(grid[table.reference(point)].evicts());
    EXPECT_EQ(grid[table.reference(point)].block, grid[point].block);
    const auto rows = static_cast<double>(grid[point].rows_for(40)),
               block = grid[point].block == 8 ? 100.0 : 0;
    EXPECT_THAT(table.scores("score", point, examples), ElementsAre(20 + rows + block, rows + block));
    EXPECT_THAT(table.differences("score", point, examples), ElementsAre(rows, rows));
  }
  EXPECT_THROW(table.scores("other", 0, examples), InvalidInput);
}

TEST(MeansOfEach, AreOfWholeGroups) {
  const std::vector<double> values{1, 2, 3, 5, 8, 13};
  EXPECT_THAT(means_of_each(values, 2), ElementsAre(1.5, 4, 10.5));
  EXPECT_THAT(means_of_each(values, 1), ElementsAre(1, 2, 3, 5, 8, 13));
  EXPECT_TRUE(means_of_each({}, 3).empty());
  EXPECT_THROW(means_of_each(values, 4), InvalidInput);
  EXPECT_THROW(means_of_each(values, 0), InvalidInput);
}

}  // namespace

}  // namespace keyscope::evaluation

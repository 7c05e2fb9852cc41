#include "app/evaluation/longbench_report.hpp"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::HasSubstr;

LongBenchRow row(const char* task, std::optional<std::int64_t> length) {
  LongBenchRow made;
  made.task = find_longbench_task(task);
  made.length = length;
  return made;
}

// Three rows of trec and one of qasper: the full cache has all of qasper and half of trec.
class LongBenchReports : public ::testing::Test {
 protected:
  const std::vector<LongBenchRow> rows_{row("trec", 100), row("trec", 5000), row("trec", std::nullopt),
                                        row("qasper", 9000)};
  const std::vector<GridPoint> grid_ = grid_of(made_settings());
  const std::vector<ExampleResult> results_ =
      made_results(4, grid_, [](std::size_t i, const GridPoint& point) {
        const double full = i == 3 ? 1 : 0.25 * static_cast<double>(i + 1);
        return Scores{{"score", point.evicts() ? full - 0.25 : full}};
      });
  const LongBenchReport report_ = longbench_report(ScoreTable(results_, grid_), rows_, 1);
};

TEST_F(LongBenchReports, HaveACellPerTaskAndGridPoint) {
  ASSERT_EQ(report_.cells.size(), 12U);
  EXPECT_EQ(report_.cells[0].task->name, "qasper");  // the benchmark's order, not the rows'
  EXPECT_EQ(report_.cells[6].task->name, "trec");
  EXPECT_EQ(report_.cells[6].points.n, 3);
  EXPECT_DOUBLE_EQ(report_.cells[6].points.score.mean, 50);
  EXPECT_DOUBLE_EQ(report_.cells[7].points.score.mean, 25);
  EXPECT_DOUBLE_EQ(report_.cells[7].points.difference.mean, -25);
  EXPECT_EQ(report_.cells[7].budget_rows, 10);
  EXPECT_EQ(report_.cells[8].budget_rows, 20);
}

TEST_F(LongBenchReports, RowsWithoutALengthAreInNoBin) {
  const auto& bins = report_.cells[6].by_length;
  ASSERT_EQ(bins.size(), 2U);
  EXPECT_EQ(bins[0].first, "0-4k");
  EXPECT_DOUBLE_EQ(bins[0].second.score.mean, 25);
  EXPECT_EQ(bins[1].first, "4-8k");
  EXPECT_DOUBLE_EQ(bins[1].second.score.mean, 50);
}

TEST_F(LongBenchReports, TasksWeighTheSameInTotals) {
  ASSERT_EQ(report_.totals.size(), 6U);
  EXPECT_EQ(report_.totals[0].points.n, 4);
  EXPECT_DOUBLE_EQ(report_.totals[0].points.score.mean, 75);
  EXPECT_DOUBLE_EQ(report_.totals[1].points.difference.mean, -25);
  ASSERT_EQ(report_.totals[0].categories.size(), 2U);
  EXPECT_EQ(report_.totals[0].categories[0].first, "single-document QA");
  EXPECT_DOUBLE_EQ(report_.totals[0].categories[1].second.score.mean, 50);
}

TEST_F(LongBenchReports, SayInJsonWhatTheyCompare) {
  const auto report = longbench_json(report_, grid_);
  ASSERT_EQ(report["cells"].size(), 12U);
  const auto& full = report["cells"][6];
  EXPECT_EQ(full["policy"], "none");
  EXPECT_EQ(full["task"], "trec");
  EXPECT_EQ(full["n"], 3);
  EXPECT_EQ(full["score"], 50.0);
  EXPECT_EQ(full["score_interval"].size(), 2U);
  EXPECT_FALSE(full.contains("difference"));
  EXPECT_EQ(report["cells"][7]["difference"], -25.0);
  EXPECT_TRUE(report["cells"][0]["score_interval"][0].is_null());  // one row
  EXPECT_EQ(report["totals"][0]["categories"]["few-shot learning"]["score"], 50.0);
}

// 23 of 160 as LongBench's own script rounds them; its mean of each length is another expression.
TEST(LongBenchReport, RoundsATaskAsTheBenchmarkDoes) {
  const std::vector<LongBenchRow> rows(160, row("trec", 100));
  const std::vector<GridPoint> grid = grid_of(made_settings());
  const std::vector<ExampleResult> results =
      made_results(rows.size(), grid, [](std::size_t i, const GridPoint&) {
        return Scores{{"score", i < 23 ? 1.0 : 0.0}};
      });
  const auto report = longbench_report(ScoreTable(results, grid), rows, 1);
  EXPECT_EQ(longbench_json(report, grid)["cells"][0]["score"], 14.38);
}

TEST_F(LongBenchReports, FitATable) {
  const std::string table = longbench_table(report_, grid_);
  EXPECT_THAT(table, HasSubstr("qasper   trec    mean"));
  EXPECT_THAT(table, HasSubstr("100.00  50.00   75.00\n"));
  EXPECT_THAT(table, HasSubstr("-25.00"));
  EXPECT_EQ(std::ranges::count(table, '\n'), 7);
}

double score(const char* task, const char* prediction, const std::vector<std::string>& answers,
             const std::vector<std::string>& classes = {}) {
  return longbench_score(*find_longbench_task(task), prediction, answers, classes);
}

TEST(LongBenchScores, TakeTheBestAnswer) {
  EXPECT_EQ(score("qasper", "a red house", {"blue", "the red house"}), 1);
  EXPECT_EQ(score("qasper", "yes", {"no"}), 0);
}

TEST(LongBenchScores, OfFewShotTasksTakeTheFirstLine) {
  EXPECT_EQ(score("triviaqa", "\n\nParis\nPassage: London", {"Paris"}), 1);
  EXPECT_LT(score("hotpotqa", "\n\nParis\nPassage: London", {"Paris"}), 1);
  EXPECT_EQ(score("trec", "City\nDate", {"City"}, {"City", "Date"}), 1);
  EXPECT_EQ(score("trec", "City, Date", {"City"}, {"City", "Date"}), 0.5);
}

TEST(LongBenchScores, GoByTheTask) {
  EXPECT_EQ(score("passage_count", "5, 5, 6", {"5"}), 2 / 3.0);
  EXPECT_EQ(score("passage_retrieval_en", "Paragraph 3", {"Paragraph 3"}), 1);
  EXPECT_EQ(score("lcc", "return x\n", {"return x"}), 1);
  EXPECT_NEAR(score("multi_news", "one two. three", {"one two. three"}), 1, 1e-8);
}

TEST(LongBenchScores, RoundAsPython) {
  for (const auto& golden : read_goldens("longbench_goldens.json", "percents"))
    EXPECT_EQ(two_decimals(100 * golden["total"].get<double>() / golden["n"].get<double>()),
              golden["percent"].get<double>())
        << json_text(golden);
}

// 100 times the mean is below the tie here, and what is rounded down becomes 14.37.
TEST(LongBenchScores, OfATaskAreSummedBeforeTheyAreDivided) {
  std::vector<double> scores(160);
  std::fill_n(scores.begin(), 23, 1.0);
  EXPECT_EQ(task_points(scores), 14.375);
  EXPECT_EQ(two_decimals(task_points(scores)), 14.38);
}

TEST(LongBenchScores, LengthsGoIntoBins) {
  EXPECT_EQ(length_bin(0), "0-4k");
  EXPECT_EQ(length_bin(3999), "0-4k");
  EXPECT_EQ(length_bin(4000), "4-8k");
  EXPECT_EQ(length_bin(7999), "4-8k");
  EXPECT_EQ(length_bin(8000), "8k+");
}

}  // namespace

}  // namespace keyscope::evaluation

#include "app/grid/grid_report.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/app/grid/made_grid.hpp"

namespace keyscope::grid {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// keydiff answers half of the examples, with protection all; random none, with protection a quarter.
GridFindings made_findings(std::vector<std::size_t> n_examples = {20, 20}) {
  return find(made_scores(made_plan({"keydiff", "tova", "random"}, {"none", "recent:0.1"}), n_examples,
                          [](std::size_t, std::size_t, std::size_t s, std::size_t p, std::size_t i) {
                            const std::size_t of_four = s == 2 ? p : s == 1 ? 1 + p : 2 + 2 * p;
                            return i % 4 < of_four ? 100.0 : 0.0;
                          }));
}

TEST(GridReport, AnswersInTwoSentencesWithIntervals) {
  const std::string answer = answer_text(made_findings());
  // Leads of 100 and 50: of 50 and 25 alone, 75 and 25 protected.
  EXPECT_THAT(answer, HasSubstr("(keydiff, tova) lead random without any by 75.0 ["));
  EXPECT_THAT(answer, HasSubstr("of which 43.8 ["));
  EXPECT_THAT(answer, HasSubstr("are their score and 31.2 ["));
  EXPECT_THAT(answer, HasSubstr("protection is 42 % ["));
  EXPECT_THAT(answer, HasSubstr("Without protection they lead random by 37.5 ["));
  EXPECT_THAT(answer, HasSubstr("with the same protection by 50.0 ["));
  EXPECT_THAT(answer, HasSubstr("protection alone gives random 25.0 ["));
  EXPECT_THAT(answer, HasSubstr("of the lead. Without protection")) << "two sentences";
}

TEST(GridReport, SaysWhyThereIsNoAnswer) {
  GridPlan plan = made_plan({"keydiff", "random"}, {"none"});
  const auto findings = find(made_scores(plan, {4}, [](auto...) { return 0.0; }));
  EXPECT_THAT(answer_text(findings), HasSubstr("cannot be said: There is no protection but"));
}

TEST(GridReport, TableHasScoresDifferencesAndTheAnswer) {
  const std::string table = grid_table(made_findings());
  EXPECT_THAT(table, HasSubstr("task 0, recall in %, N = 25%: the full cache has 100.0"));
  EXPECT_THAT(table, HasSubstr("  keydiff       50.0       100.0\n"));
  EXPECT_THAT(table, HasSubstr("  random         0.0        25.0\n"));
  EXPECT_THAT(table, HasSubstr("−50.0*")) << "random against keydiff, of 20 examples";
  EXPECT_THAT(table, HasSubstr("protection, mean over what is crossed"));
}

TEST(GridReport, JsonHasEveryCellDifferenceAndPart) {
  evaluation::Settings settings;
  settings.model.name = "made";
  const auto findings = made_findings();
  const auto json = grid_json(findings, settings, {"a row"});
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["model"], "made");
  EXPECT_EQ(json["cells"].size(), 2U * 2 * 6);
  EXPECT_EQ(json["cells"][1]["policy"], "keydiff:protect=recent:0.1");
  EXPECT_EQ(json["cells"][1]["protect"], "recent:0.1");
  EXPECT_EQ(json["cells"][1]["points"], 100);
  EXPECT_EQ(json["differences"].size(), findings.differences.size());
  EXPECT_EQ(json["differences"][0]["value"], "tova");
  EXPECT_EQ(json["differences"][0]["against"], "keydiff");
  EXPECT_EQ(json["lead"][0]["task"], nullptr);
  EXPECT_EQ(json["lead"][0]["lead"], 75);
  EXPECT_DOUBLE_EQ(
      json["lead"][0]["score_part"].get<double>() + json["lead"][0]["protection_part"].get<double>(), 75);
  EXPECT_EQ(json["tasks"][0]["full"].size(), 1U) << "the full cache has no budget";
  EXPECT_EQ(json["bad_rows"], 1);
}

TEST(GridFigures, AreOnePerSlotThatVariesAndTheAnswer) {
  const auto figures = grid_figures(made_findings(), "made");
  std::vector<std::string> names;
  for (const figures::Figure& figure : figures) names.push_back(figure.name);
  EXPECT_EQ(names, (std::vector<std::string>{"grid-lead", "grid-scorer", "grid-protect"}));
  // All tasks and each of two, at two budgets.
  ASSERT_EQ(figures[0].panels.size(), 6U);
  EXPECT_EQ(figures[0].panels[0].title, "all tasks, N = 25%");
  EXPECT_EQ(figures[0].panels[0].x.categories, (std::vector<std::string>{"keydiff", "tova", "mean"}));
  // At the base and on the mean, for each task.
  ASSERT_EQ(figures[1].panels.size(), 4U);
  EXPECT_EQ(figures[1].panels[0].x.categories, (std::vector<std::string>{"tova", "random"}));
  EXPECT_THAT(figures[1].caption, AllOf(HasSubstr("20 examples of task 0"), HasSubstr("Base: keydiff")));
}

TEST(GridFigures, FillWhatIsClaimed) {
  const auto with = [](std::size_t n) {
    const auto figures = grid_figures(made_findings({n}), "made");
    std::size_t n_claimed = 0;
    for (const figures::PointSeries& series : figures[1].panels[0].points)
      if (series.label.ends_with("p < 0.05")) n_claimed += series.x.size();
    return n_claimed;
  };
  EXPECT_EQ(with(4), 0U) << "four examples prove nothing";
  EXPECT_EQ(with(80), 4U) << "two scorers at two budgets";
}

}  // namespace
}  // namespace keyscope::grid

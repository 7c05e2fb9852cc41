#include "app/evaluation/ruler_report.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/niah.hpp"
#include "tests/app/evaluation/made_results.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two lengths of vt, the shorter one of fwe alone; the full cache and keydiff with a budget of 10 rows.
class RulerReports : public ::testing::Test {
 protected:
  RulerReports() {
    settings_.task = "ruler";
    settings_.policies = parse_policies({"keydiff"});
    settings_.budgets = parse_budgets({"10"});
    settings_.blocks = {8};
    grid_ = grid_of(settings_);
    for (const auto& [task, length] : {std::pair{"vt", 512}, {"vt", 1024}, {"fwe", 512}})
      for (int sample = 0; sample < 4; ++sample)
        examples_.push_back(ruler_example(*find_ruler_task(task), length, sample, {1, 2, 3}, {"a"}));
    // vt at 512: 1, 1, 1, 0.5; at 1,024: 0.4, …; fwe: 1. Evicting takes a quarter of all.
    const std::vector<double> scores{1, 1, 1, 0.5, 0.4, 0.4, 0.4, 0.4, 1, 1, 1, 1};
    results_ = made_results(examples_.size(), grid_, [&](std::size_t example, const GridPoint& point) {
      return Scores{{"score", scores[example] * (point.evicts() ? 0.75 : 1)}};
    });
  }

  RulerReport report() const { return ruler_report(ScoreTable(results_, grid_), examples_, 0); }

  Settings settings_;
  std::vector<GridPoint> grid_;
  std::vector<Example> examples_;
  std::vector<ExampleResult> results_;
};

TEST_F(RulerReports, ScoresAreInPercentByTaskAndLength) {
  const auto json = ruler_json(report(), grid_);
  ASSERT_EQ(json["cells"].size(), 6U);
  const auto& first = json["cells"][0];
  EXPECT_EQ(first["task"], "vt");
  EXPECT_EQ(first["length"], 512);
  EXPECT_EQ(first["policy"], "none");
  EXPECT_EQ(first["n"], 4);
  EXPECT_EQ(first["score"], 87.5);
  EXPECT_EQ(first["score_interval"].size(), 2U);
  EXPECT_FALSE(first.contains("difference"));
  const auto& evicting = json["cells"][1];
  EXPECT_EQ(evicting["policy"], "keydiff");
  EXPECT_EQ(evicting["budget"], 10);
  EXPECT_EQ(evicting["score"], 65.62) << "65.625, as Python rounds it";
  EXPECT_DOUBLE_EQ(evicting["difference"], -21.875);
  EXPECT_EQ(json["cells"][3]["length"], 1024);
  EXPECT_EQ(json["cells"][4]["task"], "fwe");
}

TEST_F(RulerReports, MeansWeighTasksTheSame) {
  const auto json = ruler_json(report(), grid_);
  ASSERT_EQ(json["totals"].size(), 6U);
  EXPECT_TRUE(json["totals"][0]["length"].is_null());
  EXPECT_NEAR(json["totals"][0]["score"], (87.5 + 40 + 100) / 3, 0.006);
  EXPECT_EQ(json["totals"][0]["n"], 12);
  EXPECT_EQ(json["totals"][2]["length"], 512);
  EXPECT_EQ(json["totals"][2]["score"], 93.75);
  EXPECT_EQ(json["totals"][5]["length"], 1024);
  EXPECT_NEAR(json["totals"][5]["difference"], -10, 1e-9);
}

TEST_F(RulerReports, TheTableHasALineForEveryPolicyAndLength) {
  EXPECT_EQ(ruler_table(report(), grid_),
            "policy  budget  block length     vt    fwe   mean  difference to the full cache\n"
            "none         –      8    512  87.50 100.00  93.75\n"
            "keydiff     10      8    512  65.62  75.00  70.31  -23.44 (-25.00 to -20.31)\n"
            "none         –      8   1024  40.00      –  40.00\n"
            "keydiff     10      8   1024  30.00      –  30.00  -10.00 (-10.00 to -10.00)\n"
            "none         –      8    all                75.83\n"
            "keydiff     10      8    all                56.88  -18.96 (-20.00 to -16.88)\n");
}

TEST_F(RulerReports, FiguresAreThoseThatAreAnnounced) {
  const auto figures = ruler_figures(report(), grid_, "caption");
  std::vector<std::string_view> names;
  for (const auto& figure : figures) {
    names.emplace_back(figure.name);
    EXPECT_EQ(figure.caption, "caption");
  }
  names.emplace_back("ruler-anatomy");  // which every evaluation adds
  EXPECT_EQ(names, figure_names("ruler", true));
  const auto& curves = figures[0].panels.front();
  EXPECT_THAT(curves.x.categories, ElementsAre("512", "1K"));
  ASSERT_EQ(curves.points.size(), 2U);
  EXPECT_THAT(curves.points[1].y, ElementsAre(70.3125F, 30.F));
  ASSERT_EQ(figures[1].panels.size(), 2U) << "one for each grid point";
  const auto& tasks = *figures[1].panels[1].heatmap;
  EXPECT_EQ(tasks.values(0, 0), 65.62F);
  EXPECT_EQ(tasks.values(1, 0), 75.F);
  EXPECT_TRUE(std::isnan(tasks.values(1, 1))) << "fwe was not asked at 1,024 tokens";
  ASSERT_EQ(figures[2].panels.size(), 1U);
  EXPECT_EQ(figures[2].panels[0].heatmap->values(0, 0), -21.875F);
}

TEST_F(RulerReports, OneLengthShowsPoliciesSideBySide) {
  std::erase_if(examples_, [](const Example& example) { return example.about["length"] == 1024; });
  results_.erase(results_.begin() + 8, results_.begin() + 16);
  const auto figures = ruler_figures(report(), grid_, "");
  ASSERT_EQ(figures[1].panels.size(), 1U);
  EXPECT_THAT(figures[1].panels[0].x.categories, ElementsAre("none", "keydiff"));
  EXPECT_EQ(figures[1].panels[0].heatmap->values(1, 1), 75.F);
  EXPECT_THAT(ruler_table(report(), grid_), ::testing::Not(HasSubstr(" all ")));
}

TEST(RulerFigures, AreFewerWithoutAPolicy) {
  EXPECT_THAT(figure_names("ruler", false), ElementsAre("ruler", "ruler-tasks"));
}

}  // namespace

}  // namespace keyscope::evaluation

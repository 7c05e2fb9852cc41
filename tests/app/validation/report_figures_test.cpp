#include "app/validation/report_figures.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/validation/made_records.hpp"

namespace keyscope::validation {
namespace {

using figures::Figure;
using figures::Panel;
using measures::HeadMeasures;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Figure> figures_of(int n_prompts) {
  const auto records = test::made_records(n_prompts, [](PromptRecord& record, int i) {
    for (HeadMeasures& head : test::run_of(record, "none").heads) head.spearman = head.layer + 0.125 * i;
    test::set(record, "keydiff", &HeadMeasures::log_volume_nats, 3);
  });
  Settings settings;
  settings.model.name = "small";
  return report_figures(make_report(settings, test::made_prompts(n_prompts), records));
}

TEST(ReportFigures, MeansStandAtTheirLayersWithBars) {
  const Figure figure = figures_of(3).front();
  EXPECT_EQ(figure.name, "correlation-by-layer");
  EXPECT_THAT(figure.caption, HasSubstr("small: 3 prompts"));
  const Panel& panel = figure.panels.front();
  const auto& means = panel.points.front();
  EXPECT_EQ(means.id, "spearman");
  EXPECT_THAT(means.y, ElementsAre(0.125F, 1.125F));
  EXPECT_NEAR(means.x[1] - means.x[0], 1, 1e-6);
  const auto bars = std::ranges::find(panel.lines, "spearman_spread", &figures::LineSeries::id);
  ASSERT_NE(bars, panel.lines.end());
  EXPECT_LT(bars->y[0], 0.125F);
  EXPECT_GT(bars->y[1], 0.125F);
}

TEST(ReportFigures, PoliciesThatEvictAreCompared) {
  const Figure figure = figures_of(3).back();
  ASSERT_EQ(figure.panels.size(), 4u);
  EXPECT_THAT(figure.panels[0].x.categories, ElementsAre("keydiff", "sink", "random"));
  EXPECT_THAT(figure.panels[0].points[0].y, ElementsAre(3));
}

TEST(ReportFigures, OnePromptHasMeansWithoutBars) {
  const Panel panel = figures_of(1).front().panels.front();
  EXPECT_EQ(panel.points.front().y.size(), 2u);
}

}  // namespace
}  // namespace keyscope::validation

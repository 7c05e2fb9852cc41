#include "app/validation/validation_report.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
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

using ::testing::Not;

Report report_with(const std::string& hostile) {
  auto prompts = test::made_prompts(9);
  prompts[0].name = prompts[1].beginning = hostile;
  Settings settings;
  settings.model.name = hostile;
  return make_report(settings, prompts, test::made_records(9));
}

TEST(ReportPage, TextOfPromptsIsNeverMarkup) {
  const std::string page = report_page(report_with("</td><script src=\"x.js\">alert('1')</script>\xFF"), {});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;/td&gt;&lt;script src=&quot;x.js&quot;&gt;alert(&#39;1&#39;)"));
}

TEST(ReportPage, RefersToNothingOutsideIt) {
  const std::array pictures{results::PagePicture{"A picture", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"}};
  const std::string page = report_page(report_with("plain"), pictures);
  for (const char* reference : {"http:", "https:", "//", "url(", "@import", "<link", "<script", "<iframe"})
    EXPECT_THAT(page, Not(HasSubstr(reference))) << reference;
  EXPECT_THAT(page, HasSubstr("src=\"data:image/svg+xml;base64,"));
  EXPECT_THAT(page, HasSubstr("alt=\"A picture\""));
}

TEST(ReportPage, EveryVerdictHasItsRule) {
  const Report report = report_with("plain");
  const std::string page = report_page(report, {});
  std::size_t at = 0;
  for (const Claim& claim : report.claims) {
    at = page.find("id=\"" + claim.id + "\"", at);
    ASSERT_NE(at, std::string::npos) << claim.id;
    EXPECT_LT(page.find(verdict_name(claim.verdict), at), page.find("</section>", at)) << claim.id;
    EXPECT_LT(page.find("Rule: ", at), page.find("</section>", at)) << claim.id;
  }
}

TEST(ReportPage, TheJsonSaysTheSame) {
  const Report report = report_with("plain\xFF");
  const auto json = parse_json(report_json(report));
  ASSERT_EQ(json["claims"].size(), report.claims.size());
  EXPECT_EQ(json["claims"][0]["id"], "attention-correlation");
  EXPECT_EQ(json["claims"][0]["rule"], report.claims[0].rule);
  EXPECT_EQ(json["claims"][0]["findings"][0]["n_prompts"], 9);
  EXPECT_EQ(json["claims"][5]["findings"][0]["violations"], 0);
  EXPECT_EQ(json["summary"].size(), report.summary.size());
  EXPECT_EQ(json["prompts"].size(), 9u);
}

}  // namespace

}  // namespace keyscope::validation

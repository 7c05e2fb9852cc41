#include "app/validation/validation_report.hpp"

#include <algorithm>
#include <array>
#include <functional>
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
  std::vector<Claim> all = report.claims;
  all.insert(all.end(), report.theorems.begin(), report.theorems.end());
  for (const Claim& claim : all) {
    at = page.find("id=\"" + claim.id + "\"", at);
    ASSERT_NE(at, std::string::npos) << claim.id;
    EXPECT_LT(page.find(verdict_text(claim), at), page.find("</section>", at)) << claim.id;
    EXPECT_LT(page.find("Rule: ", at), page.find("</section>", at)) << claim.id;
  }
}

Report report_of(const std::function<void(PromptRecord&, int)>& change, int n_prompts = 10) {
  Settings settings;
  settings.model.name = "small";
  settings.model.weights_sha256 = "0123456789abcdef";
  settings.model.sha256 = "fedcba9876543210";
  return make_report(settings, test::made_prompts(n_prompts), test::made_records(n_prompts, change));
}

TEST(Headline, SaysInOneSentenceWhatWasFound) {
  const auto spearman = [](double mean) {
    return [mean](PromptRecord& record, int i) {
      test::set(record, "none", &HeadMeasures::spearman, mean + 0.0125 * (i - 4.5));
      test::set(record, "none", &HeadMeasures::spearman_given_position, 0.5);
    };
  };
  const std::string found = headline(report_of(spearman(0.3)));
  EXPECT_THAT(found,
              ::testing::StartsWith("In small, keys unlike the mean key receive more attention (ρ 0.300 ["));
  EXPECT_THAT(found, HasSubstr("], weak); of 8 claims 2 are supported and 6 are not"));
  EXPECT_THAT(found, Not(HasSubstr(". "))) << "one sentence";
  EXPECT_THAT(headline(report_of(spearman(-0.3))),
              HasSubstr("keys unlike the mean key do not receive more attention (ρ −0.300"));
  EXPECT_THAT(headline(report_of(spearman(0.3), 3)),
              ::testing::AllOf(
                  HasSubstr("3 prompts cannot tell whether keys unlike the mean key receive more attention"),
                  HasSubstr("of 8 claims 0 are supported and 0 are not, and 8 cannot be told")));
}

TEST(Headline, ABugComesFirst) {
  const Report bug = report_of([](PromptRecord& record, int) { record.bounds[0].theorem.violations = 1; });
  EXPECT_THAT(headline(bug), ::testing::StartsWith(
                                 "Theorem 3.2 violated: a bug in Keyscope or in the recording; In small, "));
  const Report stated =
      report_of([](PromptRecord& record, int) { record.bounds[0].lemma_stated.violations = 1; });
  EXPECT_THAT(headline(stated), HasSubstr("; Lemma 3.1 fails as stated"));
}

TEST(ReportPage, HeadlineComesFirstAndTheoremsApart) {
  const Report report = report_of(nullptr);
  const std::string page = report_page(report, {});
  const auto at = [&](const std::string& text) { return page.find(text); };
  EXPECT_LT(at("<p class=\"advice\">In small, "), at("class=\"overview\""));
  EXPECT_LT(at("id=\"kl-divergence\""), at("<h2>Theorems"));
  EXPECT_LT(at("<h2>Theorems"), at("id=\"theorem-3.2\""));
}

TEST(ReportPage, NamesTheWeightsAndNotTheirHeaders) {
  const std::string page = report_page(report_of(nullptr), {});
  EXPECT_THAT(page, HasSubstr("weights 0123456789ab,"));
  EXPECT_THAT(page, Not(HasSubstr("fedcba987654")));
}

TEST(ReportPage, IntervalsAreNotRoundedToNothing) {
  const Report report = report_of([](PromptRecord& record, int i) {
    test::set(record, "none", &HeadMeasures::top_key_query_cosine, 0.98723 + 1e-5 * i);
  });
  const std::string page = report_page(report, {});
  EXPECT_THAT(page, ::testing::ContainsRegex("<td>0.9872[0-9]</td><td>.0.9872[0-9], 0.9872[0-9].</td>"));
  EXPECT_THAT(page, Not(HasSubstr("[0.987, 0.987]")));
}

TEST(ReportPage, TheJsonSaysTheSame) {
  const Report report = report_with("plain\xFF");
  const auto json = parse_json(report_json(report));
  ASSERT_EQ(json["claims"].size(), report.claims.size());
  EXPECT_EQ(json["claims"][0]["id"], "attention-correlation");
  EXPECT_EQ(json["claims"][0]["rule"], report.claims[0].rule);
  EXPECT_EQ(json["claims"][0]["findings"][0]["n_prompts"], 9);
  for (const auto& claim : json["claims"]) EXPECT_EQ(claim["kind"], "empirical") << claim["id"];
  ASSERT_EQ(json["theorems"].size(), 2u);
  EXPECT_EQ(json["theorems"][0]["id"], "theorem-3.2");
  EXPECT_EQ(json["theorems"][0]["kind"], "theorem");
  EXPECT_EQ(json["theorems"][0]["verdict"], "supported");
  EXPECT_EQ(json["theorems"][0]["verdict_text"], "holds");
  EXPECT_EQ(json["theorems"][0]["findings"][0]["violations"], 0);
  EXPECT_THAT(json["headline"].get<std::string>(), ::testing::StartsWith("In plain\uFFFD, keys unlike"));
  EXPECT_EQ(json["summary"].size(), report.summary.size());
  EXPECT_EQ(json["prompts"].size(), 9u);
}

}  // namespace

}  // namespace keyscope::validation

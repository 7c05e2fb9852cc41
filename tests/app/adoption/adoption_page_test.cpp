#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/adoption/adoption_report.hpp"
#include "tests/app/adoption/made_adoption.hpp"

namespace keyscope::adoption {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AdoptionPage, TextIsNeverMarkup) {
  Adoption made = test::made_adoption();
  made.model.name = made.tasks[0].name = made.candidates[0].policy = "<script>alert('1')</script>\xFF";
  const std::string page = adoption_page(made, {});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;1&#39;)"));
}

TEST(AdoptionPage, RefersToNothingOutsideIt) {
  const std::array pictures{results::PagePicture{"A picture", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"}};
  const std::string page = adoption_page(test::made_adoption(), pictures);
  for (const char* reference : {"http:", "https:", "//", "url(", "@import", "<link", "<script", "<iframe"})
    EXPECT_THAT(page, Not(HasSubstr(reference))) << reference;
  EXPECT_THAT(page, HasSubstr("src=\"data:image/svg+xml;base64,"));
}

TEST(AdoptionPage, SaysWhatToDoAndByWhichRule) {
  const std::string page = adoption_page(test::made_adoption(), {});
  EXPECT_THAT(page, HasSubstr("Adopt keydiff with a budget of 50%"));
  EXPECT_THAT(page, HasSubstr("keydiff · 50% (recommended)"));
  EXPECT_THAT(page, HasSubstr("ends at 2 points or below"));
  EXPECT_THAT(page, HasSubstr("30.0 [29.0,\u00A031.0]"));           // points lost
  EXPECT_THAT(page, HasSubstr("5.1 [4.1,\u00A06.2]"));              // per cent of perplexity: exp(0.05) - 1
  EXPECT_THAT(page, HasSubstr("<td>98.0 [97.0,\u00A099.0]</td>"));  // the full cache
  EXPECT_THAT(page, HasSubstr("<td>12.18 [12.06,\u00A012.30]</td>"));  // exp(2.5)
}

TEST(AdoptionPage, LeavesOutWhatWasNotMeasured) {
  Adoption made = test::made_adoption();
  made.latency_repeat = made.n_diagnosed = 0;
  for (Candidate& candidate : made.candidates) candidate.first_token_ratio.reset();
  const std::string page = adoption_page(made, {});
  EXPECT_THAT(page, Not(HasSubstr("first token")));
  EXPECT_THAT(page, Not(HasSubstr("<h2>Why</h2>")));
  EXPECT_EQ(adoption_figures(made).size(), 2U);
  const auto json = adoption_json(made);
  EXPECT_TRUE(json["candidates"][0]["first_token_ms"].is_null());
  EXPECT_TRUE(json["candidates"][0]["first_token_ratio"].is_null());
  EXPECT_TRUE(json["ratios"].is_null());
}

TEST(AdoptionPage, TimesStandWithTheirIntervals) {
  const Adoption made = test::made_adoption();
  const std::string page = adoption_page(made, {});
  EXPECT_THAT(page, HasSubstr("<td>1.0297 [1.0294,\u00A01.0300]</td>"));
  EXPECT_THAT(page, HasSubstr("7 rounds, each of all in turn; on this machine (load average at most 1.25, 2 "
                              "processors)"));
  EXPECT_THAT(page, HasSubstr("Rule: ratios of times are medians"));
  EXPECT_THAT(page, Not(HasSubstr("annot be told:")));
  const auto json = adoption_json(made);
  EXPECT_TRUE(json["candidates"][1]["first_token_ratio"]["told"]);
  EXPECT_EQ(json["candidates"][1]["first_token_ratio"]["rounds"], 7);
  EXPECT_EQ(json["ratios"]["load"], 1.25);
  EXPECT_EQ(adoption_figures(made)[1].name, "first-token-by-memory");
}

// Times that differ from themselves by a factor of 25 are no figure anywhere, and nothing is drawn of them.
TEST(AdoptionPage, TimesThatCannotBeToldAreNoFigures) {
  Adoption made = test::made_adoption();
  const benchmarks::RoundTimes full{{74, 80, 1832, 75, 90, 78, 76}, made.latency_load};
  for (Candidate& candidate : made.candidates)
    candidate.first_token_ratio = benchmarks::paired_ratio(candidate.first_token_ms, full);
  made.full_first_token_ms = {78, 74, 1832};
  const std::string page = adoption_page(made, {});
  EXPECT_THAT(page, HasSubstr("<td>cannot be told</td>"));
  EXPECT_THAT(page, HasSubstr("<p>Cannot be told: times of one and the same work differ by a factor of 24.8, "
                              "more than 4.</p>"));
  EXPECT_THAT(page, HasSubstr("whether its first token comes sooner or later cannot be told"));
  EXPECT_THAT(page, HasSubstr("<td>1832.0</td>")) << "what was measured still stands there";
  const auto json = adoption_json(made);
  EXPECT_FALSE(json["candidates"][0]["first_token_ratio"]["told"]);
  for (const figures::Figure& figure : adoption_figures(made))
    EXPECT_NE(figure.name, "first-token-by-memory");
  made.candidates[3].first_token_ratio = benchmarks::unit_ratio(7);
  const auto some = adoption_figures(made);
  EXPECT_THAT(some[1].caption, HasSubstr("what is missing cannot be told: times of one"));
}

TEST(AdoptionPage, SaysHowMuchEvictionAffected) {
  Adoption made = test::made_adoption();
  EXPECT_THAT(adoption_page(made, {}), Not(HasSubstr("affected examples</th>")));
  EXPECT_THAT(adoption_figures(made)[0].caption, Not(HasSubstr("scores of all examples")));
  made.candidates[0].losses[0].after_eviction = 0.6;
  made.candidates[0].losses[0].n_affected = 120;
  made.candidates[1].losses[1].after_eviction = 0;
  made.candidates[1].losses[1].n_affected = 0;
  const std::string page = adoption_page(made, {});
  EXPECT_THAT(page, HasSubstr("niah: loss of affected examples, points"));
  EXPECT_THAT(page, HasSubstr("perplexity: loss per affected token, % of perplexity"));
  EXPECT_THAT(page, HasSubstr("<td>120 of 200 examples</td>"));
  EXPECT_THAT(page, HasSubstr("<td>all 200</td>"));
  EXPECT_THAT(page, HasSubstr("<td>0 of 80000 tokens</td>"));
  EXPECT_THAT(page, HasSubstr("<td>nothing evicted</td>"));
  EXPECT_THAT(adoption_figures(made)[0].caption, HasSubstr("scores of all examples"));
}

TEST(AdoptionPage, SaysWhatCannotBeToldAndWhy) {
  Adoption made = test::made_adoption();
  for (Candidate& candidate : made.candidates) candidate.losses[0].full = {0, 0, 0, 200};
  made.candidates[1].losses[1].loss.n_samples = 12;
  made.recommendation = recommend(made.candidates, made.rule);
  const std::string page = adoption_page(made, {});
  EXPECT_THAT(page, HasSubstr("Keep the full cache"));
  EXPECT_THAT(page, HasSubstr("<td>not solved by the full cache</td>"));
  EXPECT_THAT(page, HasSubstr("<li>niah: the full cache itself scores 0.0 [0.0, 0.0] %, which does not begin "
                              "above the tolerance of 2 points, under every policy and budget</li>"));
  EXPECT_THAT(page, HasSubstr("<li>perplexity: 12 affected windows; at least 20 are needed, under keydiff"));
  const auto json = adoption_json(made);
  EXPECT_TRUE(json["recommendation"]["policy"].is_null());
  EXPECT_THAT(json["candidates"][0]["tasks"][0]["reason"],
              HasSubstr("the full cache itself scores 0.0 [0.0, 0.0] %"));
}

TEST(AdoptionPage, AMissingIntervalLeavesNoDash) {
  Adoption made = test::made_adoption();
  made.geometry.spearman.low = made.geometry.spearman.high = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(adoption_page(made, {}), AllOf(HasSubstr("<td>0.300</td>"), Not(HasSubstr("0.300 –"))));
}

TEST(AdoptionPage, ListsRowsThatWereSkipped) {
  Adoption made = test::made_adoption();
  EXPECT_THAT(adoption_page(made, {}), Not(HasSubstr("skipped")));
  made.tasks[0].bad_rows = {"rows.jsonl, line 3: <no JSON>"};
  EXPECT_THAT(adoption_page(made, {}), HasSubstr("<li>rows.jsonl, line 3: &lt;no JSON&gt;</li>"));
  const auto json = adoption_json(made);
  EXPECT_EQ(json["tasks"][0]["bad_rows"], 1);
  EXPECT_EQ(json["tasks"][0]["skipped_rows"][0], "rows.jsonl, line 3: <no JSON>");
  EXPECT_EQ(json["tasks"][1]["bad_rows"], 0);
}

TEST(AdoptionPage, TheJsonSaysTheSame) {
  const auto json = adoption_json(test::made_adoption());
  EXPECT_EQ(json["recommendation"]["policy"], "keydiff");
  EXPECT_EQ(json["recommendation"]["budget_text"], "50%");
  ASSERT_EQ(json["candidates"].size(), 4U);
  EXPECT_EQ(json["candidates"][0]["verdict"], "not fit");
  EXPECT_EQ(json["candidates"][3]["tasks"][0]["verdict"], "cannot tell");
  EXPECT_EQ(json["candidates"][1]["tasks"][0]["loss"]["n"], 200);
  EXPECT_DOUBLE_EQ(json["candidates"][1]["tasks"][0]["score"]["mean"], 0.975);
  EXPECT_EQ(json["prompts"]["p95_tokens"], 1900);
  EXPECT_DOUBLE_EQ(json["candidates"][1]["p95_memory_share"], 0.5);
  EXPECT_EQ(json["candidates"][1]["tasks"][0]["affected"], 200);
  EXPECT_EQ(json["candidates"][1]["tasks"][1]["scored"], 80'000);
  EXPECT_DOUBLE_EQ(json["candidates"][1]["tasks"][0]["affected_loss"]["mean"], 0.005);
  EXPECT_DOUBLE_EQ(json["candidates"][1]["tasks"][0]["affected_full"]["mean"], 0.98);
  EXPECT_TRUE(json["candidates"][1]["tasks"][0]["reason"].is_null());
  EXPECT_DOUBLE_EQ(json["diagnosis"]["attention_top_share"]["mean"], 0.6);
  EXPECT_DOUBLE_EQ(json["diagnosis"]["sink_metric"]["mean"], 0.4);
  EXPECT_NEAR(json["diagnosis"]["top_share_without_first"].get<double>(), 0.2 / 0.6, 1e-12);
}

// A line and a bar of every policy, the full cache and what may be lost.
TEST(AdoptionFigures, EveryTaskHasAPanel) {
  const auto figures = adoption_figures(test::made_adoption());
  ASSERT_EQ(figures.size(), 4U);
  EXPECT_EQ(figures[3].name, "prompt-lengths");
  ASSERT_EQ(figures[0].panels.size(), 2U);
  const auto& lines = figures[0].panels[0].lines;
  const auto line = [&](const std::string& id) {
    return std::ranges::find(lines, id, &figures::LineSeries::id);
  };
  ASSERT_NE(line("keydiff-line"), lines.end());
  EXPECT_THAT(line("keydiff-line")->y, testing::ElementsAre(testing::FloatEq(68), testing::FloatEq(97.5)));
  // What stands side by side is drawn so; the numbers are the memory's.
  EXPECT_THAT(line("keydiff-line")->x, testing::ElementsAre(testing::FloatEq(25), testing::FloatEq(50)));
  EXPECT_THAT(line("sink-line")->x, testing::ElementsAre(testing::FloatEq(25), testing::FloatEq(50)));
  EXPECT_LT(line("keydiff-line")->dodge_pt, line("sink-line")->dodge_pt);
  EXPECT_FLOAT_EQ(line("full")->y[0], 98);
  EXPECT_FLOAT_EQ(line("tolerance")->y[0], 96);
  const auto& nats = figures[0].panels[1].lines;
  const auto tolerance = std::ranges::find(nats, "tolerance", &figures::LineSeries::id);
  EXPECT_FLOAT_EQ(tolerance->y[0], static_cast<float>(1.02 * std::exp(2.5)));
}

}  // namespace
}  // namespace keyscope::adoption

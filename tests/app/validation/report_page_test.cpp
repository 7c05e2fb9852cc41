#include "app/validation/report_page.hpp"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/validation/report_json.hpp"
#include "tests/app/validation/made_records.hpp"

namespace keyscope::validation {
namespace {

using ::testing::HasSubstr;
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
  const std::array pictures{PagePicture{"A picture", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"}};
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
  const auto json = nlohmann::json::parse(report_json(report));
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

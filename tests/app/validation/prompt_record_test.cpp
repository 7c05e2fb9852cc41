#include "app/validation/prompt_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/validation/made_records.hpp"

namespace keyscope::validation {
namespace {

using measures::HeadMeasures;
using ::testing::HasSubstr;

PromptRecord awkward_record() {
  return test::made_records(1,
                            [](PromptRecord& record, int) {
                              test::set(record, "keydiff", &HeadMeasures::spearman,
                                        0.1 + 0.2);  // no short decimal
                              test::set(record, "none", &HeadMeasures::kendall, std::nullopt);
                              test::run_of(record, "sink").kl_nats = 1e-300;
                              record.bounds[1].lemma_stated = {7, 3, -1.0 / 3};
                              record.bounds[0].theorem = {};
                              record.bounds[0].theorem_share_causal = std::nullopt;
                            })
      .front();
}

TEST(PromptRecord, ReadsBackToTheLastBit) {
  const auto json = prompt_record_json(awkward_record());
  const PromptRecord read = parse_prompt_record(json.dump(1), "here");
  EXPECT_EQ(prompt_record_json(read), json);
  EXPECT_EQ(read.run("keydiff")->heads[1].spearman, 0.1 + 0.2);
  EXPECT_EQ(read.run("none")->heads[0].kendall, std::nullopt);
  EXPECT_EQ(read.run("sink")->kl_nats, 1e-300);
  EXPECT_EQ(read.bounds[1].lemma_stated.min_slack, -1.0 / 3);
  EXPECT_EQ(read.run("h2o"), nullptr);
}

TEST(PromptRecord, EveryFieldIsNeeded) {
  const auto whole = prompt_record_json(awkward_record());
  for (const char* field : {"key", "n_tokens", "budget", "runs", "bounds"}) {
    auto json = whole;
    json.erase(field);
    try {
      parse_prompt_record(json.dump(), "a.json");
      FAIL() << field;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.json"));
      EXPECT_THAT(error.what(), HasSubstr(field));
    }
  }
  auto other_kind = whole;
  other_kind["runs"][0]["heads"][0]["spearman"] = "high";
  EXPECT_THROW(parse_prompt_record(other_kind.dump(), "a.json"), FileError);
  EXPECT_THROW(parse_prompt_record(whole.dump().substr(0, 200), "a.json"), FileError);
}

}  // namespace
}  // namespace keyscope::validation

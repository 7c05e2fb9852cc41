#include "app/validation/prompt_record.hpp"

#include <fstream>
#include <limits>
#include <memory>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/measures/head_bounds.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/app/validation/made_records.hpp"
#include "tests/support/scratch_folder.hpp"

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
  const PromptRecord read = parse_prompt_record(json_text(json, 1), "here");
  EXPECT_EQ(prompt_record_json(read), json);
  EXPECT_EQ(read.run("keydiff")->heads[1].spearman, 0.1 + 0.2);
  EXPECT_EQ(read.run("none")->heads[0].kendall, std::nullopt);
  EXPECT_EQ(read.run("sink")->kl_nats, 1e-300);
  EXPECT_EQ(read.bounds[1].lemma_stated.min_slack, -1.0 / 3);
  EXPECT_EQ(read.run("h2o"), nullptr);
}

// Files are named by it.
TEST(PromptRecord, AKeyThatIsNoDigestIsRefused) {
  auto json = prompt_record_json(awkward_record());
  for (const char* key : {"", "../../package", "/etc/passwd",
                          "000000000000000000000000000000000000000000000000000000000000000/",
                          "00000000000000000000000000000000000000000000000000000000000000000",
                          "A000000000000000000000000000000000000000000000000000000000000000"}) {
    json["key"] = key;
    try {
      parse_prompt_record(json_text(json), "a.json");
      FAIL() << key;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("a.json"), HasSubstr("key is "),
                                                 HasSubstr("expected 64 hexadecimal digits")));
    }
  }
}

TEST(PromptRecord, EveryFieldIsNeeded) {
  const auto whole = prompt_record_json(awkward_record());
  for (const char* field : {"key", "n_tokens", "budget", "runs", "bounds"}) {
    auto json = whole;
    json.erase(field);
    try {
      parse_prompt_record(json_text(json), "a.json");
      FAIL() << field;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.json"));
      EXPECT_THAT(error.what(), HasSubstr(field));
    }
  }
  auto other_kind = whole;
  other_kind["runs"][0]["heads"][0]["spearman"] = "high";
  EXPECT_THROW(parse_prompt_record(json_text(other_kind), "a.json"), FileError);
  EXPECT_THROW(parse_prompt_record(json_text(whole).substr(0, 200), "a.json"), FileError);
}

TEST(BoundTallies, AreOfTheSamePairsAsTheBounds) {
  measures::HeadBounds head;
  head.layer = 2;
  head.kv_head = 1;
  head.theorem.pairs = 3;
  head.theorem.min_slack = 0.5;
  head.theorem.share_causal = std::numeric_limits<double>::quiet_NaN();
  head.lemma.pairs = 9;
  head.lemma.pairs_nonnegative = 7;
  head.lemma.stated.violations = 4;
  head.lemma.always.min_slack = std::numeric_limits<double>::quiet_NaN();
  const BoundTallies found = tally_bounds(head);
  EXPECT_EQ(found.layer, 2);
  EXPECT_EQ(found.kv_head, 1);
  EXPECT_EQ(found.theorem.pairs, 3);
  EXPECT_EQ(found.theorem.min_slack, 0.5);
  EXPECT_EQ(found.theorem_share_causal, std::nullopt);
  EXPECT_EQ(found.lemma_stated.pairs, 7);
  EXPECT_EQ(found.lemma_stated.violations, 4);
  EXPECT_EQ(found.lemma_proof.pairs, 7);
  EXPECT_EQ(found.lemma_always.pairs, 9);
  EXPECT_EQ(found.lemma_always.min_slack, std::nullopt);
}

namespace fs = std::filesystem;
using ::testing::AllOf;
using Json = nlohmann::ordered_json;

class ResultFolderTest : public ::testing::Test {
 protected:
  std::string refusal(const Json& settings) const {
    try {
      const ResultFolder folder(out_, settings, false);
    } catch (const FileError& error) {
      return error.what();
    }
    return "no error";
  }

  test::ScratchFolder scratch_;
  fs::path out_ = scratch_.file("out");
  PromptRecord record_ = test::made_records(1).front();
};

TEST_F(ResultFolderTest, NothingIsWrittenBeforeItBegins) {
  const ResultFolder folder(out_, Json{{"block", 64}}, false);
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(ResultFolderTest, FindsWhatWasSavedWhenItIsOpenedAgain) {
  {
    ResultFolder folder(out_, Json{{"block", 64}}, false);
    folder.begin();
    EXPECT_FALSE(folder.find(record_.key));
    folder.save(record_);
    ResultFolder beside(out_, Json{{"block", 64}}, false);
    EXPECT_THAT([&] { beside.begin(); },
                ::testing::ThrowsMessage<FileError>(HasSubstr("another run is writing there")));
  }
  ResultFolder again(out_, Json{{"block", 64}}, false);
  again.begin();
  const auto found = again.find(record_.key);
  ASSERT_TRUE(found);
  EXPECT_EQ(prompt_record_json(*found), prompt_record_json(record_));
}

TEST_F(ResultFolderTest, OtherSettingsAreRefusedSayingWhatDiffers) {
  ResultFolder(out_, Json{{"block", 64}, {"budget", "0.25"}}, false).begin();
  EXPECT_THAT(refusal(Json{{"block", 128}, {"budget", "0.25"}}),
              AllOf(HasSubstr("block is 64 there and 128 here"), ::testing::Not(HasSubstr("budget"))));
}

TEST_F(ResultFolderTest, ForceThrowsEarlierResultsAwayOnlyWhenItBegins) {
  {
    ResultFolder earlier(out_, Json{{"block", 64}}, false);
    earlier.begin();
    earlier.save(record_);
    earlier.write("validation.json", "{}");
  }
  ResultFolder folder(out_, Json{{"block", 128}}, true);
  EXPECT_TRUE(folder.find(record_.key));
  folder.begin();
  EXPECT_FALSE(folder.find(record_.key));
  EXPECT_FALSE(fs::exists(out_ / "validation.json"));
  EXPECT_EQ(refusal(Json{{"block", 128}}), "no error");
}

TEST_F(ResultFolderTest, ForceLeavesWhatAnotherCommandHasMade) {
  for (const char* task : {"niah", "grid", "report", "reproduce"}) {
    fs::remove_all(out_);
    fs::create_directories(out_ / "recordings");
    std::ofstream(out_ / "settings.json") << json_text(Json{{"task", task}, {"block", 64}});
    std::ofstream(out_ / "recordings/mine.h5") << "x";
    try {
      ResultFolder(out_, Json{{"block", 128}}, true).begin();
      FAIL() << task;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("settings.json"), HasSubstr("of another command")));
    }
    EXPECT_TRUE(fs::exists(out_ / "recordings/mine.h5"));
  }
}

TEST_F(ResultFolderTest, ForceRemovesWhatAValidationMakesAlone) {
  auto earlier = std::make_unique<ResultFolder>(out_, Json{{"block", 64}}, false);
  earlier->begin();
  earlier->save(record_);
  fs::create_directories(out_ / "figures");
  const std::vector<fs::path> made{earlier->recording(record_.key), out_ / "figures/policies.svg",
                                   out_ / "validation.html", out_ / "validation.h5"},
      own{out_ / "prompts/mine.json", out_ / "recordings/mine.h5", out_ / "figures/mine.svg",
          out_ / "notes.txt"};
  for (const auto& files : {made, own})
    for (const fs::path& file : files) std::ofstream(file) << "x";
  earlier.reset();
  ResultFolder folder(out_, Json{{"block", 128}}, true);
  folder.begin();
  EXPECT_FALSE(folder.find(record_.key));
  for (const fs::path& file : made) EXPECT_FALSE(fs::exists(file)) << file;
  for (const fs::path& file : own) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST_F(ResultFolderTest, ForceWithTheSameSettingsKeepsResults) {
  ResultFolder(out_, Json{{"block", 64}}, false).begin();
  ResultFolder folder(out_, Json{{"block", 64}}, true);
  folder.save(record_);
  folder.begin();
  EXPECT_TRUE(folder.find(record_.key));
}

TEST_F(ResultFolderTest, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directory(out_);
  std::ofstream(out_ / "letter.txt") << "dear";
  EXPECT_THAT(refusal(Json::object()), HasSubstr("no validation's results"));
  EXPECT_THROW(ResultFolder(out_, Json::object(), true), FileError);
  EXPECT_THROW(ResultFolder(out_ / "letter.txt", Json::object(), true), FileError);
}

TEST_F(ResultFolderTest, ADamagedPromptIsNamed) {
  ResultFolder folder(out_, Json::object(), false);
  folder.begin();
  const fs::path file = out_ / "prompts" / (record_.key.substr(0, 16) + ".json");
  std::ofstream(file) << "{\"key\": \"x\"}";
  try {
    folder.find(record_.key);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(file.string()),
                      HasSubstr("hexadecimal digits; remove the file, and the prompt is measured again")));
  }
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<PromptRecord> records() {
  return test::made_records(3, [](PromptRecord& record, int i) {
    for (HeadMeasures& head : test::run_of(record, "none").heads) head.spearman = i + 10 * head.layer;
    for (HeadMeasures& head : test::run_of(record, "sink").heads) head.spearman = 2 * i;
    test::run_of(record, "keydiff").kl_nats = i;
    if (i == 1) test::run_of(record, "none").heads[1].spearman = std::nullopt;
  });
}

TEST(Summary, APromptsNumberIsTheMeanOfItsHeads) {
  EXPECT_THAT(samples_of(records(), quantity("spearman"), "none"), ElementsAre(5, 1, 7));
  EXPECT_THAT(samples_of(records(), quantity("spearman"), "none", 1), ElementsAre(10, 12));
  EXPECT_THAT(samples_of(records(), quantity("kl_nats"), "keydiff"), ElementsAre(0, 1, 2));
  EXPECT_THAT(samples_of(records(), quantity("kl_nats"), "keydiff", 0), IsEmpty());
  EXPECT_THAT(samples_of(records(), quantity("spearman"), "h2o"), IsEmpty());
}

TEST(Summary, DifferencesAreOfHeadsThatBothHave) {
  EXPECT_THAT(differences_of(records(), quantity("spearman"), "none", "sink"), ElementsAre(5, -1, 3));
  EXPECT_THAT(differences_of(records(), quantity("kl_nats"), "keydiff", "sink"), ElementsAre(0, 1, 2));
}

TEST(Summary, RowsAreAllMeansThatExist) {
  const auto made = records();
  const auto rows = summarise(made, {});
  EXPECT_DOUBLE_EQ(find_row(rows, "spearman", "none")->mean.mean, 13.0 / 3);
  EXPECT_EQ(find_row(rows, "spearman", "none", 1)->mean.n_samples, 2);
  EXPECT_EQ(find_row(rows, "kl_nats", "none"), nullptr);
  EXPECT_EQ(find_row(rows, "kl_nats", "keydiff", 0), nullptr);
  EXPECT_THAT(layers_of(made), ElementsAre(0, 1));
}

}  // namespace

}  // namespace keyscope::validation

#include "app/validation/result_folder.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/validation/made_records.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::validation {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
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
  ResultFolder folder(out_, Json{{"block", 64}}, false);
  folder.begin();
  EXPECT_FALSE(folder.find(record_.key));
  folder.save(record_);
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
  ResultFolder earlier(out_, Json{{"block", 64}}, false);
  earlier.begin();
  earlier.save(record_);
  earlier.write("validation.json", "{}");
  ResultFolder folder(out_, Json{{"block", 128}}, true);
  EXPECT_TRUE(earlier.find(record_.key));
  folder.begin();
  EXPECT_FALSE(folder.find(record_.key));
  EXPECT_FALSE(fs::exists(out_ / "validation.json"));
  EXPECT_EQ(refusal(Json{{"block", 128}}), "no error");
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
    EXPECT_THAT(error.what(), AllOf(HasSubstr(file.string()), HasSubstr("remove it")));
  }
}

}  // namespace
}  // namespace keyscope::validation

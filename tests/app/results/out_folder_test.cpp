#include "app/results/out_folder.hpp"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::results {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

class OutFolders : public ::testing::Test {
 protected:
  OutFolder open(const Json& settings, bool discard = false) const {
    return {out_, settings, "evaluation", discard};
  }
  std::string refusal(const Json& settings, bool discard = false) const {
    try {
      open(settings, discard);
    } catch (const FileError& error) {
      return error.what();
    }
    return "no error";
  }
  std::string read(const char* name) const {
    std::ifstream file(out_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void begin(const Json& settings) const {
    OutFolder folder = open(settings);
    folder.make();
    folder.write_settings();
  }

  test::ScratchFolder scratch_;
  fs::path out_ = scratch_.file("out");
};

TEST_F(OutFolders, WriteNothingWhenTheyAreOpened) {
  const OutFolder folder = open({{"block", 64}});
  EXPECT_FALSE(folder.goes_on());
  EXPECT_FALSE(folder.discarded());
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(OutFolders, GoOnUnderTheSameSettings) {
  begin({{"block", 64}});
  EXPECT_EQ(parse_ordered_json(read("settings.json")), (Json{{"block", 64}}));
  EXPECT_TRUE(open({{"block", 64}}).goes_on());
  EXPECT_TRUE(open({{"block", 64}}, true).goes_on());
  EXPECT_FALSE(open({{"block", 64}}, true).discarded());
}

TEST_F(OutFolders, OfOtherSettingsAreRefusedSayingWhatDiffers) {
  begin({{"block", 64}, {"budget", "0.25"}});
  EXPECT_THAT(refusal({{"block", 128}, {"budget", "0.25"}}),
              AllOf(HasSubstr(out_.string()), HasSubstr("block is 64 there and 128 here"),
                    HasSubstr("--force"), Not(HasSubstr("budget"))));
}

TEST_F(OutFolders, KeepOtherSettingsUntilNewOnesAreWritten) {
  begin({{"block", 64}});
  OutFolder folder = open({{"block", 128}}, true);
  EXPECT_FALSE(folder.goes_on());
  ASSERT_TRUE(folder.discarded());
  EXPECT_EQ(*folder.discarded(), (Json{{"block", 64}}));
  EXPECT_EQ(parse_ordered_json(read("settings.json")), (Json{{"block", 64}}));
  folder.write_settings();
  EXPECT_FALSE(folder.discarded());
  EXPECT_EQ(parse_ordered_json(read("settings.json")), (Json{{"block", 128}}));
}

TEST_F(OutFolders, BeginAgainAfterAKillBeforeTheSettings) {
  fs::create_directories(out_ / "prompts");
  std::ofstream(out_ / "examples.jsonl").flush();
  std::ofstream(out_ / "settings.json.4711.part") << R"({"blo)";
  EXPECT_FALSE(open({{"block", 64}}).goes_on());
  begin({{"block", 64}});
  EXPECT_TRUE(open({{"block", 64}}).goes_on());
}

TEST_F(OutFolders, OfSomethingElseAreLeftAlone) {
  fs::create_directory(out_);
  EXPECT_EQ(refusal(Json::object()), "no error");
  std::ofstream(out_ / "letter.txt") << "dear";
  EXPECT_THAT(refusal(Json::object(), true),
              HasSubstr("no evaluation's results (there is no settings.json)"));
  out_ /= "letter.txt";
  EXPECT_THAT(refusal(Json::object(), true), HasSubstr("found a file"));
}

TEST_F(OutFolders, WithNumbersThatJsonHasNotAreReadAsTexts) {
  fs::create_directory(out_);
  std::ofstream(out_ / "settings.json") << R"({"block": NaN})";
  EXPECT_THAT(refusal({{"block", 64}}), HasSubstr("block is \"NaN\" there and 64 here"));
}

TEST_F(OutFolders, WithDamagedSettingsAreNamed) {
  fs::create_directory(out_);
  std::ofstream(out_ / "settings.json") << "{\"block\": ";
  EXPECT_THAT(refusal({{"block", 64}}, true), HasSubstr((out_ / "settings.json").string()));
}

TEST_F(OutFolders, WriteFilesOverEarlierOnes) {
  const OutFolder folder = open(Json::object());
  folder.make("figures");
  folder.write("figures/a.svg", "one");
  folder.write("figures/a.svg", "two");
  EXPECT_EQ(read("figures/a.svg"), "two");
}

TEST_F(OutFolders, ThatCannotBeMadeAreNamed) {
  std::ofstream(scratch_.file("file")) << "x";
  const OutFolder folder(scratch_.file("file") / "out", Json::object(), "evaluation", false);
  EXPECT_THROW(folder.make(), FileError);
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SettingDifferences, AreASentenceEach) {
  const Json there{{"block", 64}, {"policies", {"keydiff"}}, {"seed", 0}};
  EXPECT_THAT(setting_differences(there, {{"block", 128}, {"policies", {"keydiff", "sink"}}, {"seed", 0}}),
              ElementsAre("block is 64 there and 128 here",
                          R"(policies is ["keydiff"] there and ["keydiff","sink"] here)"));
  EXPECT_THAT(setting_differences(there, there), IsEmpty());
}

TEST(SettingDifferences, WhatIsMissingIsNull) {
  EXPECT_THAT(setting_differences(Json::object(), {{"rows", 3}}),
              ElementsAre("rows is null there and 3 here"));
  EXPECT_THAT(setting_differences({{"rows", 3}}, Json::object()), IsEmpty());
}

}  // namespace

}  // namespace keyscope::results

#include "app/evaluation/result_folder.hpp"

#include <array>
#include <fstream>
#include <functional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class ResultFolders : public ::testing::Test {
 protected:
  static ExampleResult result(const std::string& id) {
    return {.id = id,
            .policy = "keydiff",
            .budget_text = "25%",
            .budget = 8,
            .block = 4,
            .n_prompt = 32,
            .rows_kept = 8.25,
            .n_generated = 3,
            .text = " 12\n\"x\"",
            .answers = {"12"},
            .scores = {{"recall", 1.0 / 3}, {"exact", 0}}};
  }
  std::string lines() const {
    std::ostringstream text;
    text << std::ifstream(out_ / "examples.jsonl", std::ios::binary).rdbuf();
    return text.str();
  }
  void fill(int n) const {
    ResultFolder folder(out_, settings_, false);
    folder.begin();
    for (int i = 0; i < n; ++i) folder.append(result_line(result(std::to_string(i)), {{"length", 32}}));
  }
  static std::string message(const std::function<void()>& call) {
    try {
      call();
    } catch (const FileError& error) {
      return error.what();
    }
    return "no error";
  }

  test::ScratchFolder scratch_;
  std::filesystem::path out_ = scratch_.path() / "out";
  Json settings_{{"format", 1}, {"task", "niah"}, {"block", 4}};
};

TEST_F(ResultFolders, GiveBackWhatWasAppended) {
  fill(3);
  const ResultFolder folder(out_, settings_, false);
  ASSERT_EQ(folder.earlier().size(), 3U);
  EXPECT_EQ(folder.earlier().at(result_key("1", "keydiff", "25%", 4)), result("1"));
  EXPECT_THAT(lines(), HasSubstr(R"({"id":"0","length":32,"policy":"keydiff")"));
}

// A kill at any byte of the last line leaves the lines before it.
TEST_F(ResultFolders, ATornLineIsDroppedAndDoneAgain) {
  fill(3);
  const std::string whole = lines();
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = last; size < whole.size(); size += 7) {
    std::ofstream(out_ / "examples.jsonl", std::ios::binary) << whole.substr(0, size);
    ResultFolder folder(out_, settings_, false);
    EXPECT_EQ(folder.earlier().size(), 2U) << size;
    folder.begin();
    folder.append(result_line(result("2"), {{"length", 32}}));
    EXPECT_EQ(lines(), whole) << size;
  }
}

TEST_F(ResultFolders, ADamagedLineIsNamed) {
  fill(2);
  std::ofstream(out_ / "examples.jsonl", std::ios::app) << "{\"id\": 3}\n";
  EXPECT_THAT(message([&] { ResultFolder(out_, settings_, false); }),
              HasSubstr("examples.jsonl, line 3: \"id\" is \"3\"; expected a text"));
}

TEST_F(ResultFolders, OtherSettingsAreRefusedUnlessTheyMayBeDiscarded) {
  fill(2);
  const Json other{{"format", 1}, {"task", "niah"}, {"block", 8}};
  EXPECT_THAT(message([&] { ResultFolder(out_, other, false); }), HasSubstr("block is 4 there and 8 here"));
  EXPECT_NE(lines(), "");
  for (const char* name : {"niah-recall.png", "niah.h5", "results.json"}) std::ofstream(out_ / name) << "x";
  constexpr std::array kOwn{"notes.txt", "niah-notes.txt", "niahs.png", "niah-mine.png", "niah.png"};
  for (const char* own : kOwn) std::ofstream(out_ / own) << "x";
  ResultFolder folder(out_, other, true);
  EXPECT_TRUE(folder.earlier().empty());
  folder.begin();
  EXPECT_EQ(lines(), "");
  for (const char* name : {"niah-recall.png", "niah.h5", "results.json"})
    EXPECT_FALSE(std::filesystem::exists(out_ / name)) << name;
  for (const char* own : kOwn) EXPECT_TRUE(std::filesystem::exists(out_ / own)) << own;
}

TEST_F(ResultFolders, OnlyOneWritesAtATime) {
  fill(1);
  ResultFolder first(out_, settings_, false), second(out_, settings_, false);
  first.begin();
  EXPECT_THAT(message([&] { second.begin(); }), HasSubstr("another evaluation is writing there"));
}

TEST_F(ResultFolders, AFolderOfSomethingElseIsLeftAlone) {
  std::filesystem::create_directories(out_);
  std::ofstream(out_ / "thesis.tex") << "x";
  EXPECT_THAT(message([&] { ResultFolder(out_, settings_, true); }), HasSubstr("no evaluation's results"));
}

}  // namespace
}  // namespace keyscope::evaluation

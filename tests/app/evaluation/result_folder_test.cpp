#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "app/evaluation/evaluation.hpp"
#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {
int lock_error = 0;  // what locks fail with; 0: they do not
}  // namespace

// In the place of the system's, for the whole test.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (lock_error == 0) return static_cast<int>(syscall(SYS_flock, descriptor, operation));
  errno = lock_error;
  return -1;
}

namespace keyscope::evaluation {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

auto refused(const std::string& why) { return ::testing::ThrowsMessage<FileError>(HasSubstr(why)); }

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
  EXPECT_THAT([&] { ResultFolder(out_, settings_, false); },
              refused("examples.jsonl, line 3: \"id\" is 3; expected a text"));
}

TEST_F(ResultFolders, OtherSettingsAreRefusedUnlessTheyMayBeDiscarded) {
  fill(2);
  const Json other{{"format", 1}, {"task", "niah"}, {"block", 8}};
  EXPECT_THAT([&] { ResultFolder(out_, other, false); }, refused("block is 4 there and 8 here"));
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

TEST_F(ResultFolders, OfAnotherCommandAreNotDiscarded) {
  for (const char* task : {"grid", "report", "reproduce", "../x"}) {
    std::filesystem::create_directories(out_);
    std::ofstream(out_ / "settings.json") << json_text(Json{{"format", 1}, {"task", task}});
    std::ofstream(out_ / "results.json") << "x";
    EXPECT_THAT([&] { ResultFolder(out_, settings_, true).begin(); },
                refused("settings.json: of another command"))
        << task;
    EXPECT_TRUE(std::filesystem::exists(out_ / "results.json"));
  }
}

// A merged study comes from anywhere: a line of another example would pass for this one's.
TEST_F(ResultFolders, AdoptWhatWasAskedForAlone) {
  Settings settings;
  settings.task = "niah";
  settings.policies = parse_policies({"keydiff"});
  settings.budgets = parse_budgets({"25%"});
  settings.blocks = {4};
  Example example;
  example.id = "1";
  ResultFolder folder(out_, settings_, false);
  folder.begin();
  ExampleResult found = result("1");
  const auto adopt = [&] {
    folder.adopt(settings, {&example, 1}, [&](const Settings&, const AskedResult& asked) {
      return asked.point->evicts() ? std::optional(result_line(found, {})) : std::nullopt;
    });
  };
  const std::vector<std::function<void()>> changes{[&] { found.id = "2"; }, [&] { found.policy = "sink"; },
                                                   [&] { found.budget_text = "50%"; },
                                                   [&] { found.block = 8; }};
  for (const auto& change : changes) {
    found = result("1");
    change();
    EXPECT_THAT(adopt, refused("expected \"1\", policy \"keydiff\", budget \"25%\", block 4"));
    EXPECT_EQ(lines(), "");
  }
  found = result("1");
  adopt();
  EXPECT_EQ(folder.earlier().size(), 1U);
}

TEST_F(ResultFolders, OnlyOneWritesAtATime) {
  fill(1);
  ResultFolder first(out_, settings_, false), second(out_, settings_, false);
  first.begin();
  EXPECT_THAT([&] { second.begin(); }, refused("another run is writing there"));
}

// What a folder is opened on is looked at once more when nobody else can write there any longer.
TEST_F(ResultFolders, WhatAnotherWroteMeanwhileIsNotThrownAway) {
  Json other_settings = settings_;
  other_settings["block"] = 8;
  ResultFolder late(out_, other_settings, false), same(out_, settings_, false);
  fill(2);
  EXPECT_THAT([&] { late.begin(); }, refused("another run began there a moment ago"));
  EXPECT_THAT([&] { same.begin(); }, refused("another run began there a moment ago"));
  const std::string before = lines();
  {
    ResultFolder after(out_, settings_, false);
    {
      ResultFolder adding(out_, settings_, false);
      adding.begin();
      adding.append(result_line(result("2"), {{"length", 32}}));
    }
    after.begin();
    EXPECT_EQ(after.earlier().size(), 3U);
  }
  EXPECT_THAT(lines(), ::testing::StartsWith(before));
  EXPECT_EQ(ResultFolder(out_, settings_, false).earlier().size(), 3U);
}

TEST_F(ResultFolders, AFileSystemWithoutLocksIsWorkedOnWithAWarning) {
  for (const int error : {ENOLCK, ENOTSUP, EOPNOTSUPP, ENOSYS}) {
    std::filesystem::remove_all(out_);
    lock_error = error;
    testing::internal::CaptureStderr();
    {
      ResultFolder folder(out_, settings_, false);
      folder.begin();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    lock_error = 0;
    EXPECT_THAT(said, HasSubstr("keyscope: warning: ")) << error;
    EXPECT_THAT(said, HasSubstr("this file system has no locks")) << error;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
}

TEST_F(ResultFolders, AFolderOfSomethingElseIsLeftAlone) {
  std::filesystem::create_directories(out_);
  std::ofstream(out_ / "thesis.tex") << "x";
  EXPECT_THAT([&] { ResultFolder(out_, settings_, true); }, refused("no evaluation's results"));
}

}  // namespace
}  // namespace keyscope::evaluation

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/captured_phonebook.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::test {

// `keyscope export --html`: one head as a page for a browser.

namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ExportedPage : public CapturedPhonebook {
 protected:
  static CliResult write(std::vector<std::string> more) {
    std::vector<std::string> arguments{"export", path("r.h5")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }
};

TEST_F(ExportedPage, ShowsEveryRunOfOneHead) {
  const CliResult result = write({"--html", path("all.html")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("all.html: "));
  const std::string html = read_file(path("all.html"));
  EXPECT_THAT(html, AllOf(HasSubstr("Key space of layer 0, KV head 0"), HasSubstr(R"("name":"none")"),
                          HasSubstr(R"("name":"keydiff")"), HasSubstr(R"("name":"sink")")));
  EXPECT_THAT(html, HasSubstr(R"("main_run":1)")) << "the text begins with a run that evicts";
}

TEST_F(ExportedPage, ShowsWhatIsChosen) {
  const CliResult result = write({"--html", path("one.html"), "--run", "sink", "--layer", "2", "--kv-head",
                                  "3", "--block", "1", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::string html = read_file(path("one.html"));
  EXPECT_THAT(html, AllOf(HasSubstr("Key space of layer 2, KV head 3"), HasSubstr(R"("name":"sink")"),
                          HasSubstr(R"("open_at":1)"), Not(HasSubstr(R"("name":"keydiff")"))));
}

TEST_F(ExportedPage, ReplacesAFileOnlyWhenToldTo) {
  std::ofstream(path("mine.html")) << "mine";
  const CliResult refused = write({"--html", path("mine.html")});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("mine.html"));
  EXPECT_EQ(read_file(path("mine.html")), "mine");
  EXPECT_EQ(write({"--html", path("mine.html"), "--force"}).status, 0);
  EXPECT_THAT(read_file(path("mine.html")), HasSubstr("<!DOCTYPE html>"));
}

TEST_F(ExportedPage, WhatAPageHasNoUseForIsRefused) {
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    more.insert(more.end(), {"--html", path("not.html")});
    const CliResult result = write(more);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"--figure", "keyspace"}, "--figure does nothing to --html");
  refused({"--query-heads", "0"}, "--query-heads does nothing to --html");
  refused({"--components", "3"}, "--out FILE.h5");
  refused({"--layers", "0-2"}, "--layer names 3 of them, and --html shows one");
  refused({"--kv-heads", "0,1"}, "--kv-head names 2 of them");
  refused({"--out", path("not.h5")}, "excludes");
  refused({"--run", "h2o"}, "there is no run 'h2o'");
  refused({"--layer", "9"}, "layer 9 was not recorded");
  refused({"--block", "9"}, "block 9 is not there");
  EXPECT_FALSE(std::filesystem::exists(path("not.html")));
  EXPECT_FALSE(std::filesystem::exists(path("not.h5")));
}

TEST_F(ExportedPage, HasAnExtensionAndOneOfTwoOptionsIsNeeded) {
  const CliResult other = write({"--html", path("page.h5")});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("expected a name that ends in .html"));
  const CliResult neither = write({});
  EXPECT_EQ(neither.status, 2);
  EXPECT_THAT(neither.err, AllOf(HasSubstr("--out FILE.h5"), HasSubstr("--html FILE.html")));
}

// One token has no two keys to compare: the figures that need them are left out by name, and no others.
TEST(ExportedFigures, LeaveOutWhatATinyRecordingHasNothingFor) {
  const ScratchFolder folder;
  const std::string recording = folder.file("one.h5").string(), out = folder.file("figures.h5").string();
  const CliResult captured = run_cli({"capture", "--model", kDemoModel, "--prompt-ids", "[5]", "--policy",
                                      "none", "--out", recording, "--quiet"});
  ASSERT_EQ(captured.status, 0) << captured.err;
  const CliResult exported = run_cli({"export", recording, "--out", out});
  EXPECT_EQ(exported.status, 0);
  EXPECT_THAT(exported.err, AllOf(HasSubstr("'redundancy' is left out: "), HasSubstr("figures.h5: ")));
  const CliResult asked =
      run_cli({"export", recording, "--figure", "redundancy", "--out", folder.file("f.h5").string()});
  EXPECT_EQ(asked.status, 1) << "what was asked for by name is not left out";
}

// Other figures are called off, and theirs is not what is said.
TEST(FailedExport, SaysWhatFailed) {
  const ScratchFolder folder;
  const std::string recording = folder.file("r.h5").string();
  ASSERT_EQ(
      run_cli({"capture", "--model", kDemoModel, "--prompt-ids", "[300]", "--quiet", "--out", recording})
          .status,
      0);
  std::vector<std::string> arguments{"export", recording, "--out", folder.file("f.h5").string()};
  for (const char* figure :
       {"lifespans", "key-norms", "redundancy", "token-lives", "mean-cosines", "overlap"})
    arguments.insert(arguments.end(), {"--figure", figure});
  for (int repeat = 0; repeat < 10; ++repeat) {
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("redundancy is not known"), Not(HasSubstr("interrupted"))));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("f.h5")));
}

// Within a figure of all heads, the only one.
TEST(ExportInterrupted, CtrlCLeavesNothing) {
  const ScratchFolder folder;
  nlohmann::json ids = nlohmann::json::array();
  for (int i = 0; i < 6000; ++i) ids.push_back(256 + i % 700);
  std::ofstream(folder.file("ids.json")) << json_text(ids);
  const std::string recording = folder.file("r.h5").string();
  const auto out = folder.file("f.h5");
  ASSERT_EQ(run_cli({"capture", "--model", kDemoModel, "--prompt-ids", folder.file("ids.json").string(),
                     "--quiet", "--out", recording})
                .status,
            0);
  CliProcess process({"export", recording, "--figure", "bounds", "--quiet", "--out", out.string()});
  const auto has_begun = [&] {
    return std::ranges::any_of(std::filesystem::directory_iterator(folder.path()), [](const auto& entry) {
      return entry.path().filename().string().starts_with("f.h5.");
    });
  };
  for (int i = 0; i < 3000 && !has_begun(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(process.end_by(SIGINT), 130);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_THAT(entry.path().filename().string(), AnyOf("ids.json", "r.h5"));
}

}  // namespace
}  // namespace keyscope::test

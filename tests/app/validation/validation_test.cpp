// The command as a whole: killed and begun again, stopped by Ctrl-C, with other settings.

#include "app/validation/validation.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "app/figures/nexus.hpp"
#include "tests/app/commands/cli_process.hpp"
#include "tests/app/commands/cli_run.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t count_files(const fs::path& folder) {
  std::size_t n = 0;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) n += entry.path().extension() == ".json" ? 1 : 0;
  return n;
}

class Validate : public ::testing::Test {
 protected:
  // Prompts that differ, of ids that the demo model has.
  void write_prompts(int n_prompts, int n_tokens) const {
    std::ofstream file(folder_.file("prompts.jsonl"));
    for (int p = 0; p < n_prompts; ++p) {
      nlohmann::json ids = nlohmann::json::array();
      for (int i = 0; i < n_tokens; ++i) ids.push_back(256 + (i * (p + 3) + i * i) % 900);
      file << nlohmann::json{{"ids", ids}}.dump() << "\n";
    }
  }

  std::vector<std::string> command(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"validate", "--model", kDemoModel,  "--prompts", path("prompts.jsonl"),
                                   "--out",    path(out), "--policy",  "sink",      "--policy",
                                   "random",   "--quiet", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string path(const std::string& name) const { return folder_.file(name).string(); }

  ScratchFolder folder_;
};

TEST_F(Validate, AKilledOneGoesOnToTheSameBytes) {
  write_prompts(10, 500);
  ASSERT_EQ(run_cli(command("whole")).status, 0);
  {
    CliProcess process(command("killed"));
    for (int i = 0; i < 3000 && count_files(path("killed") + "/prompts") < 2; ++i) usleep(10'000);
    EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
  }
  const std::size_t n_done = count_files(path("killed") + "/prompts");
  ASSERT_GE(n_done, 2u);
  ASSERT_LT(n_done, 10u) << "too late to be killed midway";
  EXPECT_FALSE(fs::exists(path("killed") + "/validation.json"));
  const CliResult result = run_cli(command("killed"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read(path("killed") + "/validation.json"), read(path("whole") + "/validation.json"));
  EXPECT_EQ(count_files(path("killed") + "/prompts"), 10u);
}

TEST_F(Validate, CtrlCKeepsFinishedPrompts) {
  write_prompts(10, 500);
  CliProcess process(command("out"));
  for (int i = 0; i < 3000 && count_files(path("out") + "/prompts") < 1; ++i) usleep(10'000);
  EXPECT_EQ(process.end_by(SIGINT), 130);
  EXPECT_GE(count_files(path("out") + "/prompts"), 1u);
  EXPECT_FALSE(fs::exists(path("out") + "/validation.json"));
}

TEST_F(Validate, FinishedPromptsAreNotRunAgain) {
  write_prompts(3, 160);
  ASSERT_EQ(run_cli(command("out")).status, 0);
  const auto first = fs::directory_iterator(path("out") + "/prompts")->path();
  const auto written = fs::last_write_time(first);
  write_prompts(4, 160);
  ASSERT_EQ(run_cli(command("out")).status, 0);
  EXPECT_EQ(fs::last_write_time(first), written);
  EXPECT_EQ(nlohmann::json::parse(read(path("out") + "/validation.json"))["prompts"].size(), 4u);
}

TEST_F(Validate, OtherSettingsAreRefusedOrDiscarded) {
  write_prompts(2, 160);
  ASSERT_EQ(run_cli(command("out")).status, 0);
  const CliResult refused = run_cli(command("out", {"--block", "32"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("block is 128 there and 32 here"), HasSubstr("--force")));
  EXPECT_EQ(run_cli(command("out", {"--block", "32", "--force"})).status, 0);
  EXPECT_EQ(count_files(path("out") + "/prompts"), 2u);
}

TEST_F(Validate, BadRowsEndItBeforeAnythingRuns) {
  write_prompts(2, 160);
  std::ofstream(folder_.file("prompts.jsonl"), std::ios::app) << "{\"prompt\": 3}\n";
  const CliResult result = run_cli(command("out"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("prompts.jsonl, line 3"), HasSubstr("expected a text")));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Validate, WritesAPageNumbersAndFigures) {
  std::ofstream file(folder_.file("prompts.jsonl"));
  for (const char* text : {"<script>alert(1)</script> ", "And then she said: ", "The old prince "}) {
    std::string prompt;
    while (prompt.size() < 600) prompt += text;
    file << nlohmann::json{{"prompt", prompt}}.dump() << "\n";
  }
  file.close();
  const CliResult result =
      run_cli(command("out", {"--max-tokens", "90", "--block", "64", "--keep-recordings"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("3 prompts of 90 tokens, 4 layers × 4 KV heads"),
                                HasSubstr("[cannot tell]"), HasSubstr("rule: supported if")));
  const std::string page = read(path("out") + "/validation.html");
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(1)"), Not(HasSubstr("<script"))));
  const std::string json = read(path("out") + "/validation.json");
  EXPECT_THAT(json, Not(HasSubstr(folder_.path().string())));
  EXPECT_THAT(json, Not(HasSubstr(KEYSCOPE_SOURCE_DIR)));
  EXPECT_EQ(figures::read_figures(path("out") + "/validation.h5").figures.size(), 3u);
  for (const auto& recording : fs::directory_iterator(path("out") + "/recordings"))
    EXPECT_EQ(run_cli({"inspect", recording.path().string()}).status, 0);
  EXPECT_TRUE(fs::exists(path("out") + "/figures/policies.svg"));
}

}  // namespace
}  // namespace keyscope::test

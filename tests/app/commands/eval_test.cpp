// LongBench, MATH-500 and perplexity as commands: what they write, how they end, and that they go on.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kAssets = KEYSCOPE_SOURCE_DIR "/assets";

json read_json(const fs::path& path) { return parse_json(read_file(path)); }

class EvalRun : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name).string(); }

  static std::vector<std::string> command(const std::string& task, std::vector<std::string> more) {
    std::vector<std::string> words{"eval",    task,        "--model", kDemoModel, "--policy",
                                   "keydiff", "--budget",  "25%,40",  "--block",  "32",
                                   "--quiet", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<std::string> perplexity(std::vector<std::string> more) const {
    more.insert(more.end(), {"--text", kAssets + "/demo_model/prompts/needle_2048.txt", "--length", "128"});
    return command("perplexity", std::move(more));
  }

  ScratchFolder folder_;
};

TEST_F(EvalRun, LongBenchScoresEveryTaskUnderEveryGridPoint) {
  const CliResult result = run_cli(command(
      "longbench", {"--data", kAssets + "/eval/longbench.jsonl", "--out", path("out"), "--json", "-"}));
  ASSERT_EQ(result.status, 0) << result.err;
  json report = parse_json(result.out);
  EXPECT_TRUE(report.contains("cost"));
  report.erase("cost");  // what this call took, which results do not say
  EXPECT_EQ(report["cells"].size(), 15U);
  EXPECT_EQ(report["totals"].size(), 3U);
  EXPECT_EQ(report["settings"]["budgets"], json({"25%", "40"}));
  EXPECT_EQ(report["totals"][0]["n"], 5);
  EXPECT_EQ(report, read_json(path("out/results.json")));
  // Every score can be checked by hand.
  std::ifstream lines(path("out/examples.jsonl"));
  int n_lines = 0;
  for (std::string line; std::getline(lines, line); ++n_lines) {
    const json row = parse_json(line);
    EXPECT_TRUE(row.contains("text") && row.contains("answers") && row["scores"].contains("score")) << line;
  }
  EXPECT_EQ(n_lines, 15);
}

TEST_F(EvalRun, MathCountsSamplesOfAProblem) {
  const CliResult result =
      run_cli(command("math500", {"--data", kAssets + "/eval/math.jsonl", "--generate", "6", "--temperature",
                                  "0.95", "--top-p", "0.95", "--samples", "3", "--json", path("math.json")}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("flexible"), HasSubstr("keydiff")));
  const json report = read_json(path("math.json"));
  ASSERT_EQ(report["cells"].size(), 3U);
  EXPECT_EQ(report["cells"][0]["n"], 3);
  EXPECT_EQ(report["settings"]["samples"], 3);
  EXPECT_TRUE(report["cells"][1].contains("over_budget"));
}

TEST_F(EvalRun, PerplexityDrawsItsCurves) {
  const CliResult result =
      run_cli(perplexity({"--json", path("p.json"), "--figure", path("p.svg"), "--figure", path("p.h5")}));
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = read_json(path("p.json"));
  ASSERT_EQ(report["cells"].size(), 3U);
  EXPECT_EQ(report["cells"][0]["curve"].size(), 32U);
  EXPECT_GT(report["cells"][1]["ratio"].get<double>(), 1);
  EXPECT_THAT(read_file(path("p.svg")), HasSubstr("Perplexity by position"));
  EXPECT_TRUE(fs::exists(path("p.h5")));
}

TEST_F(EvalRun, ReplacesFilesOnlyWhereItIsTold) {
  std::ofstream(path("p.json")) << "earlier";
  const auto refused = run_cli(perplexity({"--json", path("p.json")}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("p.json"));
  EXPECT_EQ(read_file(path("p.json")), "earlier");
  ASSERT_EQ(run_cli(perplexity({"--json", path("p.json"), "--force"})).status, 0);
  EXPECT_EQ(read_json(path("p.json"))["task"], "perplexity");
}

// Of several figures all but the first get names of their own; what is in the way is said before anything
// runs.
TEST_F(EvalRun, WhatStandsInTheWayOfAFigureIsSaidFirst) {
  std::ofstream(path("p-niah-difference.svg")) << "earlier";
  const auto words = command("niah", {"--length", "150", "--figure", path("p.svg"), "--out", path("out")});
  const auto refused = run_cli(words);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("p-niah-difference.svg: exists already"));
  EXPECT_FALSE(fs::exists(path("out"))) << "something was run";
  fs::remove(path("p-niah-difference.svg"));
  ASSERT_EQ(run_cli(words).status, 0);
  EXPECT_THAT(read_file(path("p-niah-difference.svg")), HasSubstr("less that with the full cache"));
}

TEST_F(EvalRun, FilesMayLieInAFolderThatIsStillToBeMade) {
  const auto run = run_cli(perplexity(
      {"--windows", "2", "--out", path("out"), "--json", path("out/p.json"), "--figure", path("out/p.svg")}));
  ASSERT_EQ(run.status, 0) << run.err;
  json report = read_json(path("out/p.json"));
  EXPECT_EQ(report["cost"], read_json(path("out/cost.json")));
  report.erase("cost");
  EXPECT_EQ(report, read_json(path("out/results.json")));
  EXPECT_TRUE(fs::exists(path("out/p.svg")));
  EXPECT_EQ(run_cli(perplexity({"--out", path("new"), "--json", path("other/p.json")})).status, 1);
}

TEST_F(EvalRun, NothingIsWrittenTwice) {
  fs::create_directory(path("out"));
  for (const auto& [one, other] :
       {std::pair{"p.svg", "p.svg"}, {"p.svg", "out/../p.svg"}, {"out/perplexity.svg", "p.svg"}}) {
    const auto run = run_cli(
        perplexity({"--figure", path(one), "--figure", path(other), "--out", path("out"), "--force"}));
    EXPECT_EQ(run.status, 2) << one << " " << other;
    EXPECT_THAT(run.err, HasSubstr("would be written twice"));
  }
  EXPECT_EQ(run_cli(perplexity({"--out", path("out"), "--json", path("out/results.json")})).status, 2);
  EXPECT_TRUE(fs::is_empty(path("out")));
}

TEST_F(EvalRun, GoesOnAfterAKillAsIfThereHadBeenNone) {
  ASSERT_EQ(run_cli(perplexity({"--out", path("whole")})).status, 0);
  ASSERT_EQ(run_cli(perplexity({"--out", path("killed")})).status, 0);
  // As a kill leaves it: some lines, the last one torn.
  const std::string lines = read_file(path("killed/examples.jsonl"));
  std::ofstream(path("killed/examples.jsonl"), std::ios::binary) << lines.substr(0, lines.size() / 2);
  const CliResult result = run_cli(perplexity({"--out", path("killed"), "--json", "-"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const json again = parse_json(result.out), whole = read_json(path("whole/results.json"));
  EXPECT_GT(again["cost"]["results_earlier"].get<int>(), 10);
  EXPECT_EQ(again["cells"], whole["cells"]);
  EXPECT_EQ(read_file(path("killed/examples.jsonl")).size(), lines.size());
  // Another text is another evaluation.
  EXPECT_THAT(run_cli(perplexity({"--out", path("killed"), "--windows", "2"})).err,
              HasSubstr("other settings"));
}

TEST_F(EvalRun, AnInterruptKeepsWhatIsDone) {
  std::ofstream text(path("long.txt"));
  for (int i = 0; i < 100; ++i) text << read_file(kAssets + "/demo_model/prompts/needle_2048.txt") << "\n\n";
  text.close();
  const auto words =
      command("perplexity", {"--text", path("long.txt"), "--length", "512", "--out", path("out")});
  const auto n_bytes = [&] {
    const fs::path lines = path("out/examples.jsonl");
    return fs::exists(lines) ? fs::file_size(lines) : 0;
  };
  CliProcess process(words);
  for (int i = 0; i < 3000 && n_bytes() == 0; ++i) usleep(10'000);
  EXPECT_EQ(process.end_by(SIGINT), 130);
  EXPECT_GT(n_bytes(), 0U);
  EXPECT_FALSE(fs::exists(path("out/results.json")));
}

TEST_F(EvalRun, BadRowsAreNamedOrSkipped) {
  std::ofstream(path("rows.jsonl"))
      << read_file(kAssets + "/eval/longbench.jsonl")
      << R"({"input": "", "context": "", "answers": ["a"], "dataset": "dureader"})"
      << "\n";
  const auto words = command("longbench", {"--data", path("rows.jsonl"), "--rows", "1", "--json", "-"});
  const CliResult refused = run_cli(words);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("rows.jsonl, line 6"), HasSubstr("segmenter"), HasSubstr("--skip-bad")));
  auto skipping = words;
  skipping.emplace_back("--skip-bad");
  const CliResult skipped = run_cli(skipping);
  ASSERT_EQ(skipped.status, 0) << skipped.err;
  const json report = parse_json(skipped.out);
  EXPECT_EQ(report["bad_rows"], 1);
  EXPECT_THAT(report["skipped_rows"].at(0).get<std::string>(), HasSubstr("rows.jsonl, line 6"));
}

TEST_F(EvalRun, WrongUsageEndsWith2) {
  const std::vector<std::string> data{"--data", kAssets + "/eval/longbench.jsonl"};
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"--policy", "no-such"},
                                                                                    {"--budget", "none"},
                                                                                    {"--task", "no-such"},
                                                                                    {"--chat", "--no-chat"},
                                                                                    {"--block", "0"}}) {
    auto words = command("longbench", data);
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run_cli(words).status, 2) << more.front();
  }
  const auto no_figure = run_cli({"eval", "longbench", "--model", kDemoModel, "--data",
                                  kAssets + "/eval/longbench.jsonl", "--figure", path("f.png")});
  EXPECT_EQ(no_figure.status, 2);
  EXPECT_THAT(no_figure.err, HasSubstr("--figure: longbench draws none"));
  EXPECT_EQ(run_cli({"eval"}).status, 2);
  EXPECT_EQ(run_cli(perplexity({"--stride", "128"})).status, 2);
  EXPECT_EQ(run_cli(command("math500", {"--data", kAssets + "/eval/math.jsonl", "--samples", "2"})).status,
            2);
}

TEST_F(EvalRun, ChatNeedsATemplate) {
  const CliResult result =
      run_cli(command("longbench", {"--data", kAssets + "/eval/longbench.jsonl", "--chat"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("no chat template"));
}

}  // namespace
}  // namespace keyscope::test

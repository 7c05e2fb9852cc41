// `eval ruler` as a command: what it writes, and that it goes on.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::test {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RulerCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name).string(); }

  static std::vector<std::string> ruler(std::vector<std::string> more) {
    std::vector<std::string> words{"eval",    "ruler",     "--model", kDemoModel, "--policy",
                                   "keydiff", "--budget",  "25%",     "--block",  "64",
                                   "--quiet", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<std::string> small(const std::string& out) const {
    return ruler({"--task", "fwe,niah_multiquery,niah_single_1", "--length", "1K,512", "--samples", "2",
                  "--out", path(out)});
  }

  static json read_json(const fs::path& file) { return parse_json(read_file(file)); }

  // Every file of a folder, but for what a call took.
  static std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename() != "cost.json" && entry.path().extension() != ".h5")
        files[entry.path().filename().string()] = read_file(entry.path());
    return files;
  }

  ScratchFolder folder_;
};

TEST_F(RulerCommand, ScoresTasksByLengthUnderEveryPolicy) {
  const CliResult run = run_cli(small("out"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("12 prompts"), HasSubstr("mquery"), HasSubstr("keydiff"),
                             HasSubstr("difference to the full cache")));
  const json results = read_json(path("out/results.json"));
  EXPECT_EQ(results["cells"].size(), 12U) << "three tasks, two lengths, two policies";
  EXPECT_EQ(results["totals"].size(), 6U);
  // Every score can be made of the answers again.
  std::map<std::string, std::vector<double>> by_hand;
  std::ifstream lines(path("out/examples.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json row = parse_json(line);
    const std::string text = lower_case(row["text"].get<std::string>());
    double n = 0;
    for (const std::string answer : row["answers"]) n += text.find(lower_case(answer)) != text.npos ? 1 : 0;
    EXPECT_DOUBLE_EQ(row["scores"]["score"], n / static_cast<double>(row["answers"].size())) << line;
    by_hand[row["task"].get<std::string>() + row["length"].dump() + row["policy"].get<std::string>()]
        .push_back(row["scores"]["score"]);
    EXPECT_LE(row["n_prompt"].get<std::int64_t>() + row["n_generated"].get<std::int64_t>(),
              row["length"].get<std::int64_t>());
  }
  for (const json& cell : results["cells"]) {
    const auto& scores = by_hand.at(cell["task"].get<std::string>() + cell["length"].dump() +
                                    cell["policy"].get<std::string>());
    ASSERT_EQ(scores.size(), 2U);
    EXPECT_NEAR(cell["score"], 50 * (scores[0] + scores[1]), 0.005);
    EXPECT_EQ(cell["n"], 2);
    EXPECT_EQ(cell.contains("difference"), cell["policy"] == "keydiff");
  }
  for (const char* file : {"ruler.svg", "ruler-tasks.png", "ruler-difference.pdf", "ruler.h5"})
    EXPECT_TRUE(fs::exists(path("out") + "/" + file)) << file;
}

TEST_F(RulerCommand, GoesOnAfterAKillWithTheSameBytes) {
  ASSERT_EQ(run_cli(small("whole")).status, 0);
  ASSERT_EQ(run_cli(small("killed")).status, 0);
  EXPECT_EQ(contents(path("killed")), contents(path("whole"))) << "same seed, same bytes";
  // As a kill leaves it: some lines, the last one torn, nothing that is made of all.
  const std::string lines = read_file(path("killed/examples.jsonl"));
  for (const auto& entry : fs::directory_iterator(path("killed")))
    if (entry.path().filename() != "settings.json") fs::remove(entry.path());
  std::ofstream(path("killed/examples.jsonl"), std::ios::binary) << lines.substr(0, lines.size() / 2);
  const CliResult again = run_cli(small("killed"));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(contents(path("killed")), contents(path("whole")));
  EXPECT_GT(read_json(path("killed/cost.json"))["results_earlier"].get<int>(), 3);
  auto others = small("killed");
  others.insert(others.end(), {"--needles", "paraphrased"});
  EXPECT_THAT(run_cli(others).err, HasSubstr("other settings"));
}

TEST_F(RulerCommand, WrongUsageEndsWith2) {
  const struct {
    std::vector<std::string> more;
    const char* said;
  } kCases[]{{{"--task", "no-such"}, "niah_single_1"},
             {{"--task", "qa_1"}, "--squad FILE"},
             {{"--length", "long"}, "4096 or 4K"},
             {{"--length", "16K"}, "context is 8192"},
             {{"--needles", "sharp"}, "heterogeneous"},
             {{"--needles", "plain,paraphrased"}, "plain goes with nothing else"},
             {{"--samples", "0"}, "--samples"},
             {{"--data", "rows.jsonl", "--needles", "paraphrased"}, "--needles"},
             {{"--chat", "--no-chat"}, "--chat"}};
  for (const auto& [more, said] : kCases) {
    const CliResult run = run_cli(ruler(more));
    EXPECT_EQ(run.status, 2) << said;
    EXPECT_THAT(run.err, HasSubstr(said));
  }
}

TEST_F(RulerCommand, DamagedRowsEndWith1) {
  std::ofstream(path("niah_single_1.512.jsonl"))
      << R"({"index": 0, "input": "A special magic number is", "outputs": 7})"
      << "\n";
  const CliResult run = run_cli(ruler({"--data", path("niah_single_1.512.jsonl")}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("niah_single_1.512.jsonl, line 1"), HasSubstr("\"outputs\" is 7")));
}

// RULER's own rows, of another model's tokenizer.
TEST_F(RulerCommand, AsksRulersOwnRows) {
  const char* const folder = std::getenv("KEYSCOPE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "KEYSCOPE_TEST_DATA is not set";
  const fs::path data = fs::path(folder) / "ruler";
  if (!fs::exists(data)) GTEST_SKIP() << data << " is not there";
  const CliResult run =
      run_cli(ruler({"--data", data.string(), "--samples", "1", "--out", path("out"), "--json", "-"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const json report = parse_json(run.out);
  ASSERT_EQ(report["cells"].size(), 2U);
  for (const json& cell : report["cells"]) {
    EXPECT_EQ(cell["task"], "niah_multikey_3");
    EXPECT_EQ(cell["length"], 4096);
    EXPECT_EQ(cell["n"], 1);
    EXPECT_TRUE(cell["score"] == 0 || cell["score"] == 100);
  }
}

}  // namespace

}  // namespace keyscope::test

// `keyscope replay`: what it writes opens in every other command, and says what it is.

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

#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Replay : public ::testing::Test {
 protected:
  void SetUp() override {
    const CliResult result = run_cli({"capture",
                                      "--model",
                                      kDemoModel,
                                      "--prompt-file",
                                      kDemoModel + "/prompts/needle.txt",
                                      "--max-tokens",
                                      "60",
                                      "--policy",
                                      "none",
                                      "--policy",
                                      "keydiff",
                                      "--budget",
                                      "16",
                                      "--block",
                                      "8",
                                      "--record",
                                      "keys,queries,values",
                                      "--quiet",
                                      "--out",
                                      file("captured.h5")});
    ASSERT_EQ(result.status, 0) << result.err;
  }

  std::string file(const std::string& name) const { return folder_.file(name).string(); }

  CliResult replay(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"replay", file("captured.h5"), "--budget", "16", "--block", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }

  CliResult replay_three() const {
    return replay({"--policy", "keydiff", "--policy", "h2o", "--policy", "cur", "--out", file("replayed.h5"),
                   "--json", "-"});
  }

  ScratchFolder folder_;
};

TEST_F(Replay, SaysWhatItDidAndWhatItIsWorth) {
  const CliResult result = replay_three();
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("exact in layer 0, above it on full-cache keys: keydiff, cur"));
  EXPECT_THAT(result.err, HasSubstr("oracles, scored by the attention of the whole prompt: h2o"));
  const json summary = parse_json(result.out);
  ASSERT_EQ(summary["runs"].size(), 3u);
  EXPECT_EQ(summary["runs"][1]["oracle"], true);
  EXPECT_EQ(summary["runs"][2]["oracle"], false);
  for (const json& run : summary["runs"]) {
    EXPECT_EQ(run["replayed"], true);
    ASSERT_EQ(run["heads"].size(), 16u);
    for (const json& head : run["heads"]) {
      EXPECT_EQ(head["retained"], 16);
      EXPECT_EQ(head["evicted"], 44);
    }
  }
}

TEST_F(Replay, RetainsInLayerZeroWhatTheCaptureDid) {
  ASSERT_EQ(replay_three().status, 0);
  const auto heads = [&](const std::string& name) {
    const CliResult result =
        run_cli({"analyze", file(name), "--run", "keydiff", "--no-bounds", "--quiet", "--json", "-"});
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out)["runs"][0]["heads"];
  };
  const json captured = heads("captured.h5"), replayed = heads("replayed.h5");
  for (std::size_t head = 0; head < 4; ++head) {
    EXPECT_EQ(replayed[head]["layer"], 0);
    for (const char* field : {"retained", "log_volume_nats", "attention_mass_kept", "output_error"})
      EXPECT_EQ(replayed[head][field], captured[head][field]) << field;
    for (const char* field : {"spearman", "spearman_total"}) EXPECT_TRUE(replayed[head][field].is_null());
  }
}

TEST_F(Replay, OpensInEveryCommand) {
  ASSERT_EQ(replay_three().status, 0);
  const std::string replayed = file("replayed.h5");
  const CliResult table = run_cli({"analyze", replayed, "--no-bounds", "--quiet"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("by oracles, scored by the attention of the whole prompt: h2o"));
  const CliResult inspected = run_cli({"inspect", replayed, "--json", "-"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const json runs = parse_json(inspected.out)["runs"];
  EXPECT_EQ(runs[0]["replayed"], false);
  EXPECT_EQ(runs[2]["oracle"], true);
  EXPECT_EQ(runs[2]["parameters"]["oracle"], "attention_received");
  for (const char* figure : {"keyspace", "cosine-matrix", "attention"}) {
    const CliResult drawn = run_cli({"figure", replayed, figure, "--run", "h2o", "--layer", "1", "--out",
                                     file(std::string(figure) + ".svg")});
    EXPECT_EQ(drawn.status, 0) << drawn.err;
  }
  EXPECT_EQ(run_cli({"export", replayed, "--quiet", "--out", file("figures.h5")}).status, 0);
  EXPECT_EQ(run_cli({"compare", replayed, replayed, "--quiet"}).status, 0);
  const CliResult compared = run_cli({"compare", file("captured.h5"), replayed, "--quiet"});
  EXPECT_EQ(compared.status, 1);
  EXPECT_THAT(compared.out, HasSubstr("run keydiff: captured against replayed"));
}

TEST_F(Replay, RefusesBeforeItWrites) {
  struct Refusal {
    std::vector<std::string> arguments;
    int status;
    const char* says;
  };
  const std::string out = file("replayed.h5");
  const std::vector<Refusal> refusals = {
      {{"--policy", "keydiff"}, 2, "--out FILE is needed"},
      {{"--policy", "keydif", "--out", out}, 2, "is not known"},
      {{"--policy", "none", "--out", out}, 2, "--policy that evicts"},
      {{"--policy", "keydiff", "--run", "keydiff", "--out", out}, 2, "hidden states"},
      {{"--policy", "keydiff", "--layers", "4", "--out", out}, 2, "0, 1, 2, 3"},
      {{"--policy", "snapkv:window=20", "--out", out}, 1, "--record keys,queries,attention"},
      {{"--policy", "keydiff", "--out", file("captured.h5"), "--force"}, 2, "a file that is read"},
      {{"--policy", "keydiff", "--out", out, "--json", out}, 2, "--json"},
      {{"--policy", "keydiff", "--out", file("nowhere/replayed.h5")}, 1, "folder does not exist"},
  };
  for (const Refusal& refusal : refusals) {
    const CliResult result = replay(refusal.arguments);
    EXPECT_EQ(result.status, refusal.status) << refusal.says;
    EXPECT_THAT(result.err, HasSubstr(refusal.says));
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST_F(Replay, IsNotHeldUpByWhatAKilledOneLeft) {
  const std::vector<std::string> words{"--policy", "keydiff", "--quiet", "--out", file("replayed.h5")};
  ASSERT_EQ(replay(words).status, 0);
  fs::rename(file("replayed.h5"), file("replayed.h5.part"));
  const CliResult again = replay(words);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(fs::exists(file("replayed.h5.part")));
}

TEST_F(Replay, ADryRunSaysWhatItWouldDo) {
  const CliResult result = replay({"--policy", "keydiff", "--dry-run", "--quiet"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("60 prompt tokens"));
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(Replay, QuietIsQuiet) {
  const CliResult result = replay({"--policy", "keydiff", "--quiet", "--out", file("replayed.h5")});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Replay, ReplacesOnlyWhenAsked) {
  ASSERT_EQ(replay_three().status, 0);
  const std::vector<std::string> arguments{"--policy", "sink", "--quiet", "--out", file("replayed.h5")};
  const CliResult refused = replay(arguments);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  std::vector<std::string> forced = arguments;
  forced.emplace_back("--force");
  EXPECT_EQ(replay(forced).status, 0);
  EXPECT_THAT(run_cli({"inspect", file("replayed.h5")}).out, Not(HasSubstr("h2o")));
}

// Long enough to be interrupted: logdet over a few thousand tokens, evicted four at a time.
TEST(ReplayInterrupted, CtrlCKeepsTheRunsThatAreDone) {
  const ScratchFolder folder;
  json ids = json::array();
  for (int i = 0; i < 3000; ++i) ids.push_back(256 + i % 700);
  std::ofstream(folder.file("ids.json")) << json_text(ids);
  const std::string source = folder.file("captured.h5").string();
  const fs::path out = folder.file("replayed.h5");
  ASSERT_EQ(run_cli({"capture", "--model", kDemoModel, "--prompt-ids", folder.file("ids.json").string(),
                     "--quiet", "--out", source})
                .status,
            0);
  CliProcess process({"replay", source, "--policy", "sink", "--policy", "logdet", "--budget", "512",
                      "--block", "4", "--quiet", "--out", out.string()});
  wait_for_file(out.string() + ".part");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(process.end_by(SIGINT), 130);
  EXPECT_FALSE(fs::exists(out.string() + ".part"));
  if (!fs::exists(out)) return;  // a machine too slow for even the first run
  const CliResult result = run_cli({"analyze", out.string(), "--no-bounds", "--quiet", "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(parse_json(result.out)["complete"], false);
}

}  // namespace
}  // namespace keyscope::test

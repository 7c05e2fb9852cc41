// `keyscope bench`: its rows say what was run and measured, and it refuses what it cannot measure. No time is
// asserted: the machine that runs the tests is shared.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

CliResult bench(const std::string& what, std::vector<std::string> more, const fs::path& folder = ".") {
  std::vector<std::string> arguments{"bench", what};
  if (what != "score") arguments.insert(arguments.end(), {"--model", kDemoModel, "--block", "16"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_cli(arguments, "", folder);
}

json rows_of(const CliResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  if (result.status != 0) return json::array();
  const json summary = parse_json(result.out);
  EXPECT_EQ(summary["format"], 1);
  for (const json& row : summary["rows"])
    for (const char* field : {"policy", "budget", "block", "schedule", "n_tokens", "ttft_ms", "ttft_ms_min",
                              "ttft_ms_max", "tokens_per_second", "eviction_share", "peak_bytes"})
      EXPECT_TRUE(row.contains(field)) << field;
  return summary["rows"];
}

TEST(Bench, PrefillRunsEveryCombinationAndNoneOncePerBlock) {
  const json rows = rows_of(
      bench("prefill", {"--policy", "none", "--policy", "keydiff", "--budget", "24,32", "--tokens", "64",
                        "--schedule", "both", "--repeat", "2", "--generate", "3", "--quiet", "--json", "-"}));
  ASSERT_EQ(rows.size(), 6u);  // two schedules of none, keydiff with 24, keydiff with 32
  EXPECT_EQ(rows[0]["policy"], "none");
  EXPECT_TRUE(rows[0]["budget"].is_null());
  EXPECT_EQ(rows[0]["peak_cache_rows"], 66);  // of three generated tokens, two were fed back
  EXPECT_EQ(rows[1]["budget"], 24);
  EXPECT_EQ(rows[1]["schedule"], "block");
  EXPECT_EQ(rows[5]["schedule"], "layer");
  EXPECT_EQ(rows[5]["budget"], 32);
  EXPECT_EQ(rows[5]["peak_cache_rows"], 48);
  for (const json& row : rows) {
    EXPECT_EQ(row["n_tokens"], 64);
    EXPECT_LE(row["ttft_ms_min"], row["ttft_ms"]);
    EXPECT_LE(row["ttft_ms"], row["ttft_ms_max"]);
    EXPECT_GT(row["tokens_per_second"], 0);
    EXPECT_GT(row["generated_per_second"], 0);
    EXPECT_GE(row["eviction_share"], 0);
    EXPECT_LT(row["eviction_share"], 1);
    EXPECT_TRUE(row["peak_bytes"].is_null());
    EXPECT_EQ(row["ttft_ms_rounds"].size(), 2u);
    EXPECT_GT(row["ttft_relative"], 0);
    EXPECT_EQ(row["ttft_relative_told"], row["policy"] == "none") << "two rounds are too few, but for 1";
    EXPECT_EQ(row["attention_share_told"], false) << "likewise";
  }
}

TEST(Bench, PrefillSaysOnWhatItMeasured) {
  const CliResult result =
      bench("prefill", {"--policy", "keydiff", "--budget", "32", "--tokens", "48", "--repeat", "1",
                        "--prompt-file", kDemoModel + "/prompts/needle.txt", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* word : {"demo_model", "bfloat16 on cpu", "thread", "x86-64-v", "matrix products alone",
                           "GFLOP/s", "ttft ms", "tokens/s", "keydiff"})
    EXPECT_THAT(result.out, HasSubstr(word));
  EXPECT_THAT(result.out, Not(HasSubstr("peak MiB")));
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "cannot be told: attention % of keydiff, 48 tokens, eviction % of keydiff, 48 tokens, products "
          "% of keydiff, 48 tokens, as 1 round, of which at least 6 are needed"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(Bench, ScoreNeedsNoModelAndComparesWithTheFlopModel) {
  std::vector<std::string> arguments{"--keys", "256,512", "--head-dim", "32", "--repeat",
                                     "2",      "--quiet", "--json",     "-"};
  for (const char* policy : {"keydiff", "sink", "l2norm", "tova", "h2o", "snapkv", "random"})
    arguments.insert(arguments.end(), {"--policy", policy});
  const json rows = rows_of(bench("score", arguments));
  ASSERT_EQ(rows.size(), 14u);
  EXPECT_EQ(rows[0]["policy"], "keydiff");
  EXPECT_EQ(rows[0]["n_tokens"], 256);
  EXPECT_EQ(rows[0]["budget"], 128);
  EXPECT_EQ(rows[0]["relative"], 1);
  EXPECT_EQ(rows[0]["flops"], (12 * 32 + 97) * 256 + 3 * 32 + 94);
  EXPECT_EQ(rows[7]["paper_relative"], 1);
  EXPECT_EQ(rows[10]["policy"], "tova");
  EXPECT_EQ(rows[10]["paper_relative"], 1.02);
  for (const json& row : rows) {
    EXPECT_GT(row["score_us"], 0);
    EXPECT_GT(row["select_us"], 0);
    EXPECT_GT(row["all_relative"], 0);
    const bool reads_attention =
        row["policy"] == "tova" || row["policy"] == "h2o" || row["policy"] == "snapkv";
    if (!reads_attention) {
      EXPECT_EQ(row["statistics_us"], 0);
    }
    EXPECT_EQ(row["flops"].is_null(), row["policy"] != "keydiff");
    EXPECT_TRUE(row["ttft_ms"].is_null());
  }
}

TEST(Bench, ScoreMeasuresEveryPolicyThereIs) {
  const std::vector<std::string> small{"--keys", "160",     "--head-dim", "8", "--repeat",
                                       "1",      "--quiet", "--json",     "-"};
  std::vector<std::string> policies;
  for (const json& row : rows_of(bench("score", small))) policies.push_back(row["policy"]);
  std::vector<std::string> registered;
  for (const analysis::PolicyEntry& policy : analysis::registered_policies())
    if (policy.name != "none")
      registered.push_back(policy.name + (policy.required.empty() ? "" : ":file=ones"));
  EXPECT_EQ(policies, registered);
  std::vector<std::string> chosen = small;
  for (const char* policy : {"l2norm", "tova:heads=all"}) chosen.insert(chosen.end(), {"--policy", policy});
  EXPECT_EQ(rows_of(bench("score", chosen))[0]["relative"], 1)
      << "the first one is the baseline where keydiff is not there";
}

TEST(Bench, CaptureLeavesNothingBehind) {
  const ScratchFolder folder;
  const json rows = rows_of(bench("capture",
                                  {"--policy", "none", "--policy", "keydiff", "--budget", "32", "--tokens",
                                   "64", "--repeat", "2", "--quiet", "--json", "-"},
                                  folder.path()));
  ASSERT_EQ(rows.size(), 2u);
  for (const json& row : rows) {
    EXPECT_GT(row["plain_ms"], 0);
    EXPECT_GT(row["recorded_ms"], 0);
    EXPECT_GT(row["file_bytes"], 64 * 4 * 4 * 32 * 2);  // more than keys and queries of a few heads
    EXPECT_TRUE(row["overhead"].is_number());
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Bench, MemoryMeasuresEachRunByItself) {
  const json rows = rows_of(bench("memory", {"--policy", "none", "--policy", "keydiff", "--budget", "32",
                                             "--tokens", "64,128", "--quiet", "--json", "-"}));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["peak_cache_rows"], 64);
  EXPECT_EQ(rows[1]["peak_cache_rows"], 48);
  EXPECT_EQ(rows[2]["peak_cache_rows"], 128);
  EXPECT_EQ(rows[3]["peak_cache_rows"], 48);
  EXPECT_EQ(rows[1]["peak_cache_bytes"], rows[3]["peak_cache_bytes"]);
  for (const json& row : rows) EXPECT_GT(row["peak_bytes"], 10 << 20);
}

TEST(Bench, DrawsWhatItMeasured) {
  const ScratchFolder folder;
  for (const char* name : {"a.png", "a.svg", "a.pdf", "a.h5"}) {
    const std::string out = folder.file(name).string();
    const CliResult result =
        bench("prefill", {"--policy", "none", "--policy", "keydiff", "--budget", "16,24,32", "--tokens",
                          "48,64", "--repeat", "1", "--quiet", "--out", out});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_GT(fs::file_size(out), 500u);
  }
  const CliResult again =
      bench("score", {"--keys", "200", "--repeat", "1", "--out", folder.file("a.svg").string()});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
}

TEST(Bench, RefusesBeforeItMeasures) {
  struct Refusal {
    std::string what;
    std::vector<std::string> arguments;
    int status;
    const char* says;
  };
  const std::vector<Refusal> refusals = {
      {"nothing", {}, 2, ""},
      {"prefill", {"--policy", "keydif"}, 2, "is not known"},
      {"prefill", {"--schedule", "blocks"}, 2, "block, layer, both"},
      {"prefill", {"--dtype", "int8"}, 2, "--dtype"},
      {"prefill", {"--budget", "32,0"}, 2, "1 or more"},
      {"prefill", {"--repeat", "0"}, 2, "1 or more"},
      {"prefill", {"--tokens", "99999"}, 1, "8192"},
      {"prefill", {"--prompt", "a few words", "--tokens", "500"}, 2, "--tokens 500: the prompt has"},
      {"prefill", {"--out", "a.bmp"}, 2, ".bmp"},
      {"prefill", {"--out", "a.svg", "--json", "a.svg"}, 2, "--json"},
      {"memory", {"--tokens", "99999"}, 1, "8192"},
      {"memory", {"--dtype", "int8"}, 2, "--dtype"},
      {"score", {"--policy", "none"}, 2, "scores nothing"},
      {"score", {"--keys", "128"}, 2, "--block 128"},
      {"score", {"--policy", "snapkv:kernel=4"}, 2, "kernel=4"},
  };
  const ScratchFolder folder;
  for (const Refusal& refusal : refusals) {
    const CliResult result = bench(refusal.what, refusal.arguments, folder.path());
    EXPECT_EQ(result.status, refusal.status) << refusal.what << " " << refusal.says << " " << result.err;
    EXPECT_THAT(result.err, HasSubstr(refusal.says));
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Bench, CtrlCEndsIt) {
  const ScratchFolder folder;
  const std::vector<std::vector<std::string>> runs{
      {"prefill", "--model", kDemoModel, "--tokens", "4000", "--repeat", "1000"},
      {"capture", "--model", kDemoModel, "--tokens", "4000", "--repeat", "1000"},
      {"memory", "--model", kDemoModel, "--tokens", "4000", "--repeat", "1000"},
      {"score", "--repeat", "100000"}};
  for (std::vector<std::string> run : runs) {
    run.insert(run.begin(), "bench");
    run.emplace_back("--quiet");
    CliProcess process(run, folder.path());
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    EXPECT_EQ(process.end_by(SIGINT), 130) << run[1];
    EXPECT_TRUE(fs::is_empty(folder.path())) << run[1];
  }
}

}  // namespace
}  // namespace keyscope::test

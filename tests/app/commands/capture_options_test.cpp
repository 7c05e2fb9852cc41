#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {

// Budgets of their own for layers and heads.

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class BudgetFile : public ::testing::Test {
 protected:
  // capture with a budget file of this text
  CliResult capture(const std::string& budgets, std::vector<std::string> more = {}) {
    std::ofstream(folder_.path() / "budgets.json") << budgets;
    std::vector<std::string> arguments{
        "capture",      "--model",       kDemoModel,     "--prompt-file", kDemoModel + "/prompts/needle.txt",
        "--max-tokens", "100",           "--policy",     "keydiff",       "--block",
        "16",           "--budget-file", "budgets.json", "--out",         "a.h5",
        "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments, "", folder_.path());
  }

  ScratchFolder folder_;
};

TEST_F(BudgetFile, GivesEveryHeadItsOwnNumberOfRows) {
  const CliResult result = capture("[30, [10, 20, 5, 8], 40, [50, 5, 9, 1]]");
  ASSERT_EQ(result.status, 0) << result.err;
  const CliResult analysis = run_cli({"analyze", "a.h5", "--no-bounds", "--json", "-"}, "", folder_.path());
  ASSERT_EQ(analysis.status, 0) << analysis.err;
  const Json run = parse_json(analysis.out).at("runs").at(0);
  EXPECT_EQ(run.at("budget"), 50) << "the largest";
  std::vector<std::size_t> retained;
  for (const Json& head : run.at("heads")) retained.push_back(head.at("retained").size());
  EXPECT_EQ(retained, (std::vector<std::size_t>{30, 30, 30, 30, 10, 20, 5, 8, 40, 40, 40, 40, 50, 5, 9, 1}));
}

TEST_F(BudgetFile, SaysWhatIsWrongAndWhere) {
  for (const auto& [budgets, complaint] : {std::pair{"[30, 10]", "4 entries, one per layer"},
                                           {"[30, [1, 2, 3], 4, 5]", "entry 1 is a list of 3"},
                                           {"[30, 0, 4, 5]", "entry 1 is 0"},
                                           {"[30, 1.5, 4, 5]", "entry 1 is 1.5"},
                                           {"[30, null, 4, 5]", "entry 1 is null"},
                                           {"{}", "one per layer"},
                                           {"[[[[1]]]]", "a JSON array of budgets"},
                                           {"[30", "a JSON array of budgets"}}) {
    const CliResult result = capture(budgets);
    EXPECT_EQ(result.status, 1) << budgets;
    EXPECT_THAT(result.err, AllOf(HasSubstr("budgets.json"), HasSubstr(complaint))) << budgets;
  }
}

TEST_F(BudgetFile, IsNotASecondBudgetAndFitsThePolicy) {
  EXPECT_EQ(capture("[1,1,1,1]", {"--budget", "5"}).status, 2);
  const CliResult result = capture("[30, [10, 20, 10, 10], 40, 5]", {"--policy", "tova:heads=all"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("tova"), HasSubstr("layer 1")));
}

TEST(CachePositions, GoBeyondTheModelsContextUnderEviction) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "ids.json") << json_text(Json(std::vector<int>(9000, 7)));
  std::vector<std::string> arguments{"capture",  "--model",  kDemoModel, "--prompt-ids", "ids.json",
                                     "--policy", "sink",     "--budget", "64",           "--block",
                                     "64",       "--layers", "0",        "--record",     "keys",
                                     "--out",    "a.h5"};
  const CliResult refused = run_cli(arguments, "", folder.path());
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("context"));
  arguments.insert(arguments.end(), {"--positions", "cache"});
  const CliResult result = run_cli(arguments, "", folder.path());
  EXPECT_EQ(result.status, 0) << result.err;
  arguments.insert(arguments.end(), {"--policy", "none", "--force"});
  const CliResult with_none = run_cli(arguments, "", folder.path());
  EXPECT_EQ(with_none.status, 1);
  EXPECT_THAT(with_none.err, AllOf(HasSubstr("9000 rows"), HasSubstr("--positions cache")));
}

}  // namespace

// `--heads` and `--store bfloat16`, from the capture to every command that reads it.

namespace {

using ::testing::ElementsAre;

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The same capture three times: whole, of two heads, and rounded.
class Heads : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    record("whole.h5", {});
    record("some.h5", {"--heads", "0,2"});
    record("rounded.h5", {"--store", "bfloat16", "--compress"});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string file(const std::string& name) { return (folder_->path() / name).string(); }
  static std::vector<std::string> capture(const std::vector<std::string>& more) {
    return with({"capture", "--dtype", "float32", "--model", kDemoModel, "--prompt-file",
                 kDemoModel + "/prompts/phonebook.txt", "--max-tokens", "300", "--policy", "none", "--policy",
                 "keydiff", "--budget", "128", "--block", "64", "--record", "keys,queries,values,attention"},
                more);
  }
  static void record(const std::string& name, const std::vector<std::string>& more) {
    const CliResult result = run_cli(with(capture(more), {"--out", file(name)}));
    ASSERT_EQ(result.status, 0) << result.err;
  }
  static Json json_of(std::vector<std::string> arguments) {
    const CliResult result = run_cli(with(std::move(arguments), {"--json", "-"}));
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out);
  }

  static ScratchFolder* folder_;
};
ScratchFolder* Heads::folder_ = nullptr;

TEST_F(Heads, OutOfRangeIsWrongUsage) {
  const CliResult result = run_cli(with(capture({"--heads", "1,9"}), {"--dry-run"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--heads: 9 is not there; the model has KV heads 0 to 3"));
}

TEST_F(Heads, AnalyzeGivesWhatStatisticsSayOfOthers) {
  const Json whole = json_of({"analyze", "--quiet", file("whole.h5")})["runs"][1]["heads"];
  const Json some = json_of({"analyze", "--quiet", file("some.h5")})["runs"][1]["heads"];
  ASSERT_EQ(some.size(), whole.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (some[i]["kv_head"] == 0 || some[i]["kv_head"] == 2) {
      EXPECT_EQ(some[i], whole[i]);
      continue;
    }
    EXPECT_EQ(some[i]["retained"], whole[i]["retained"]);
    EXPECT_EQ(some[i]["attention_mass_kept"], whole[i]["attention_mass_kept"]);
    for (const char* field : {"spearman", "mean_key_cosine", "log_volume_nats", "output_error",
                              "pca_explained", "bound_pairs", "bound_min_slack"})
      EXPECT_TRUE(some[i].at(field).is_null()) << field;
  }
}

TEST_F(Heads, OthersAreRefusedByName) {
  const auto refusal = HasSubstr("KV head 3 was not recorded; recorded are 0, 2");
  for (const std::string figure : {"keyspace", "cosine-matrix", "attention"}) {
    const CliResult result =
        run_cli({"figure", file("some.h5"), figure, "--kv-head", "3", "--out", file("not.png")});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, refusal) << figure;
  }
  EXPECT_THAT(run_cli({"export", file("some.h5"), "--kv-heads", "2-3", "--out", file("not.h5")}).err,
              refusal);
  const CliResult replay =
      run_cli({"replay", file("some.h5"), "--policy", "keydiff", "--budget", "64", "--out", file("not.h5")});
  EXPECT_EQ(replay.status, 1);
  EXPECT_THAT(replay.err, AllOf(HasSubstr("KV heads 0, 2 "), HasSubstr("without --heads")));
}

TEST_F(Heads, ExportDrawsThoseThatAreThere) {
  const CliResult result =
      run_cli({"export", file("some.h5"), "--layer", "1", "--figure", "keyspace", "--figure", "cosine-matrix",
               "--figure", "attention", "--out", file("figures.h5")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("4 figures")) << "a key space of two heads, and two matrices";
}

TEST_F(Heads, CompareSaysWhatOnlyOneHasAndFindsTheRestAlike) {
  const CliResult result = run_cli({"compare", "--quiet", file("whole.h5"), file("some.h5"), "--json", "-"});
  EXPECT_EQ(result.status, 1);
  const Json found = parse_json(result.out);
  EXPECT_EQ(found["structure"].size(), 2U);
  EXPECT_THAT(found["structure"][0].get<std::string>(), HasSubstr("rows of KV head 1 are only in"));
  for (const Json& dataset : found["datasets"]) EXPECT_EQ(dataset["agree"], true) << dataset;
}

TEST_F(Heads, InspectNamesThem) {
  EXPECT_THAT(json_of({"inspect", file("some.h5")})["recorded_kv_heads"], ElementsAre(0, 2));
  EXPECT_THAT(json_of({"inspect", file("whole.h5")})["recorded_kv_heads"], ElementsAre(0, 1, 2, 3));
}

TEST_F(Heads, InspectSaysWhatRowsWereRoundedTo) {
  std::vector<std::string> rounded;
  const Json inspected = json_of({"inspect", file("rounded.h5")});
  for (const Json& dataset : inspected["datasets"])
    if (dataset.contains("rounded_to")) {
      EXPECT_EQ(dataset["dtype"], "float32");
      EXPECT_EQ(dataset["rounded_to"], "bfloat16");
      rounded.push_back(dataset["dataset"]);
    }
  EXPECT_THAT(rounded, ElementsAre("keys", "queries", "values"));
}

TEST_F(Heads, CompareAllowsForRounding) {
  const Json found = json_of({"compare", "--quiet", file("whole.h5"), file("rounded.h5")});
  EXPECT_EQ(found["agree"], true);
  for (const Json& dataset : found["datasets"])
    if (dataset["dataset"] == "keys") {
      EXPECT_GT(dataset["largest_difference"].get<double>(), 1e-5 * dataset["largest_value"].get<double>());
      EXPECT_NEAR(dataset["tolerance"].get<double>(), 1e-5 + 0x1p-8, 1e-12);
    }
}

TEST_F(Heads, ReplaySaysThatItScoresRoundedRows) {
  const std::string out = file("replayed.h5");
  const CliResult replay =
      run_cli({"replay", file("rounded.h5"), "--policy", "sink", "--budget", "64", "--out", out});
  EXPECT_EQ(replay.status, 0) << replay.err;
  EXPECT_THAT(replay.err, HasSubstr("rounded to bfloat16 when recorded"));
  std::vector<std::string> rounded;
  const Json inspected = json_of({"inspect", out});
  for (const Json& dataset : inspected["datasets"])
    if (dataset.contains("rounded_to")) rounded.push_back(dataset["dataset"]);
  EXPECT_THAT(rounded, ElementsAre("keys", "queries", "values")) << "a copy says it too";
}

// Caches that are quantised while the model runs.

class CacheDtype : public ::testing::Test {
 protected:
  CliResult capture(std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "capture",      "--model",  kDemoModel, "--prompt-file", kDemoModel + "/prompts/needle.txt",
        "--max-tokens", "150",      "--policy", "none",          "--policy",
        "keydiff",      "--budget", "60",       "--block",       "32",
        "--out",        "a.h5",     "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments, "", folder_.path());
  }

  ScratchFolder folder_;
};

TEST_F(CacheDtype, RunsEveryPolicyWithEachAndAnalyzeComparesThem) {
  const CliResult result = capture({"--cache-dtype", "model,int4"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("keydiff-int4: keys and values of "),
                                HasSubstr("rounded to int4 with scales by channel; packed, ")));
  const CliResult analysis = run_cli({"analyze", "a.h5", "--no-bounds"}, "", folder_.path());
  ASSERT_EQ(analysis.status, 0) << analysis.err;
  EXPECT_THAT(analysis.out, AllOf(HasSubstr("none-int4: cache rounded to int4, scales by channel"),
                                  HasSubstr("against none"), HasSubstr("against keydiff")));
}

TEST_F(CacheDtype, AloneKeepsTheNamesOfRunsAndHasNothingToBeComparedWith) {
  ASSERT_EQ(capture({"--cache-dtype", "fp8", "--cache-scales", "token"}).status, 0);
  const CliResult analysis = run_cli({"analyze", "a.h5", "--no-bounds"}, "", folder_.path());
  EXPECT_THAT(analysis.out, AllOf(HasSubstr("keydiff: cache rounded to fp8, scales by token"),
                                  HasSubstr("capture --cache-dtype model,fp8")));
}

TEST_F(CacheDtype, RefusesByName) {
  for (const auto& [options, complaint] :
       {std::pair<std::vector<std::string>, std::string>{{"--cache-dtype", "int3"}, "'int3'"},
        {{"--cache-dtype", "fp8", "--cache-scales", "channel"}, "fp8 has no scales by channel"},
        {{"--cache-dtype", "int4,int4"}, "int4 is given twice"},
        {{"--cache-scales", "token"}, "give --cache-dtype"},
        {{"--cache-dtype", "int4", "--positions", "cache"}, "take --cache-scales token"}}) {
    const CliResult result = capture(options);
    EXPECT_EQ(result.status, 2) << complaint;
    EXPECT_THAT(result.err, HasSubstr(complaint));
  }
  const CliResult result =
      run_cli({"eval", "niah", "--model", kDemoModel, "--length", "300", "--cache-scales", "token"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("give --cache-dtype"));
}

TEST_F(CacheDtype, IsThatOfEveryRunOfAnEvaluation) {
  const CliResult result = run_cli({"eval", "niah", "--model", kDemoModel, "--length", "200", "--depth", "50",
                                    "--policy", "keydiff", "--cache-dtype", "int4", "--out", "e", "--quiet"},
                                   "", folder_.path());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("hold rows as int4, scales by channel"));
  std::ifstream file(folder_.file("e/results.json"));
  const auto settings = nlohmann::json::parse(file).at("settings");
  EXPECT_EQ(settings.at("cache_dtype"), "int4");
  EXPECT_EQ(settings.at("cache_scales"), "channel");
}

}  // namespace

}  // namespace keyscope::test

// The command line as its users meet it: exit statuses, messages, files.

#include "tests/support/cli.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/program.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kPrompt = kDemoModel + "/prompts/phonebook.txt";

std::vector<std::string> capture_arguments(const std::string& out) {
  return {"capture",
          "--model",
          kDemoModel,
          "--prompt-file",
          kPrompt,
          "--policy",
          "none",
          "--policy",
          "keydiff",
          "--budget",
          "128",
          "--block",
          "64",
          "--generate",
          "4",
          "--record",
          "keys,queries,values,logits",
          "--out",
          out};
}

// One recording serves all cases that only read it.
class WithRecording : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    const CliResult result = run_cli(capture_arguments(recording()));
    ASSERT_EQ(result.status, 0) << result.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string recording() { return (folder_->path() / "book.h5").string(); }
  static std::string file(const std::string& name) { return (folder_->path() / name).string(); }

  static ScratchFolder* folder_;
};
ScratchFolder* WithRecording::folder_ = nullptr;

TEST(Cli, WrongUsageExitsWithTwo) {
  EXPECT_EQ(run_cli({}).status, 2);
  EXPECT_EQ(run_cli({"no-such-command"}).status, 2);
  EXPECT_EQ(run_cli({"capture", "--no-such-option"}).status, 2);
  EXPECT_EQ(run_cli({"capture", "--model", kDemoModel, "--out", "x.h5"}).status, 2) << "no prompt";
}

TEST(Cli, UnknownPolicyNamesWhatThereIs) {
  const CliResult result = run_cli(
      {"capture", "--model", kDemoModel, "--prompt", "x", "--policy", "magic", "--budget", "8", "--dry-run"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("magic"));
  EXPECT_THAT(result.err, HasSubstr("keydiff"));
}

TEST(Cli, APolicyWithoutBudgetIsWrongUsage) {
  const CliResult result =
      run_cli({"capture", "--model", kDemoModel, "--prompt", "x", "--policy", "keydiff", "--dry-run"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--budget"));
}

TEST(Cli, HelpAndVersionSucceed) {
  EXPECT_EQ(run_cli({"--help"}).status, 0);
  const CliResult version = run_cli({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, HasSubstr("keyscope 0."));
  for (const char* command : {"demo", "capture", "analyze", "figure", "export", "view", "inspect", "compare",
                              "bench", "tokenize", "diff"}) {
    const CliResult help = run_cli({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Example")) << command;
  }
}

// LibTorch takes half a second to start, and only models need it.
TEST(Cli, StartsWithoutLibTorch) {
  ChildProgram traced({"env", "LD_TRACE_LOADED_OBJECTS=1", KEYSCOPE_EXECUTABLE}, ChildProgram::Output::kRead);
  const std::string libraries = traced.read();
  EXPECT_EQ(traced.wait(), 0);
  EXPECT_THAT(libraries, HasSubstr("libhdf5"));
  EXPECT_THAT(libraries, Not(HasSubstr("torch")));
}

// Beside the program there is no engine: what asked for it would fail.
TEST_F(WithRecording, WhatNeedsNoModelDoesNotOpenTheEngine) {
  const ScratchFolder folder;
  const std::string program = folder.file("keyscope");
  fs::copy_file(KEYSCOPE_EXECUTABLE, program);
  const std::vector<std::vector<std::string>> commands{
      {"inspect", recording()},
      {"analyze", recording(), "--json", folder.file("a.json")},
      {"compare", recording(), recording()},
      {"figure", recording(), "head-map", "--out", folder.file("a.png")},
      {"figure", recording(), "output-error", "--out", folder.file("b.png")},
      {"export", recording(), "--out", folder.file("a.h5")},
      {"replay", recording(), "--policy", "snapkv", "--budget", "64", "--out", folder.file("r.h5")},
      {"tokenize", "--model", kDemoModel, "--prompt", "a b c"}};
  for (const std::vector<std::string>& words : commands) {
    std::vector<std::string> command{program};
    command.insert(command.end(), words.begin(), words.end());
    ChildProgram alone(command, ChildProgram::Output::kRead);
    alone.read();
    EXPECT_EQ(alone.wait(), 0) << words.front() << " " << words.back();
  }
}

TEST(Cli, SaysWhereItsEngineIsMissing) {
  const ScratchFolder folder;
  fs::copy_file(KEYSCOPE_EXECUTABLE, folder.file("keyscope"));
  ChildProgram alone({"sh", "-c",
                      folder.file("keyscope").string() + " capture --model " + kDemoModel +
                          " --prompt a --out " + folder.file("a.h5").string() + " 2>&1"},
                     ChildProgram::Output::kRead);
  const std::string says = alone.read();
  EXPECT_EQ(alone.wait(), 1);
  EXPECT_THAT(says,
              AllOf(HasSubstr(folder.file("libkeyscope_engine.so").string()), HasSubstr("./run build")));
  EXPECT_EQ(std::ranges::count(says, '\n'), 1) << says;
}

TEST(Cli, AMissingModelIsOneSentence) {
  const CliResult result =
      run_cli({"capture", "--model", "/no/such/folder", "--prompt", "x", "--out", "x.h5"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("/no/such/folder"));
  EXPECT_FALSE(fs::exists("x.h5"));
}

TEST(Cli, APromptLongerThanTheContextIsRefusedWithBothFigures) {
  const ScratchFolder folder;
  Json ids = Json::array();
  for (int i = 0; i < 9000; ++i) ids.push_back(300);
  std::ofstream(folder.path() / "ids.json") << json_text(ids);
  const CliResult result =
      run_cli({"capture", "--model", kDemoModel, "--prompt-ids", (folder.path() / "ids.json").string(),
               "--out", (folder.path() / "x.h5").string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("9000"));
  EXPECT_THAT(result.err, HasSubstr("8192"));
  EXPECT_FALSE(fs::exists(folder.path() / "x.h5"));
  EXPECT_FALSE(fs::exists(folder.path() / "x.h5.part"));
}

TEST(Cli, TakesIdsAsTheyAreOrFromAFile) {
  const auto refusal = [](const std::string& ids) {
    const CliResult result =
        run_cli({"capture", "--model", kDemoModel, "--prompt-ids", ids, "--policy", "none", "--dry-run"});
    return result.status == 0 ? "" : result.err;
  };
  EXPECT_EQ(refusal("[5, 80]"), "");
  EXPECT_THAT(refusal("[5, -1]"), HasSubstr("--prompt-ids: entry 1 is -1"));
  EXPECT_THAT(refusal("[5, 80"),
              HasSubstr("--prompt-ids: found no JSON, expected a JSON array of token ids"));
  EXPECT_THAT(refusal("absent.json"), HasSubstr("absent.json"));
}

TEST(Cli, DryRunSaysTheCostAndWritesNothing) {
  const ScratchFolder folder;
  auto arguments = capture_arguments((folder.path() / "x.h5").string());
  arguments.emplace_back("--dry-run");
  const CliResult result = run_cli(arguments);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("of disk"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(WithRecording, AnExistingOutIsRefusedAndKept) {
  const auto size = fs::file_size(recording());
  const CliResult result = run_cli(capture_arguments(recording()));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--force"));
  EXPECT_EQ(fs::file_size(recording()), size);
}

TEST_F(WithRecording, AnalyzeWritesTheDocumentedFields) {
  const CliResult result = run_cli({"analyze", recording(), "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json report = parse_json(result.out);
  EXPECT_EQ(report["format"], 1);
  ASSERT_EQ(report["runs"].size(), 2U);
  EXPECT_EQ(report["runs"][0]["run"], "none");
  EXPECT_EQ(report["runs"][0]["kl_nats"], 0.0);
  EXPECT_EQ(report["runs"][0]["top1_agreement"], 1.0);
  EXPECT_EQ(report["runs"][1]["policy"], "keydiff");
  EXPECT_EQ(report["runs"][1]["budget"], 128);
  const Json& head = report["runs"][1]["heads"][0];
  EXPECT_EQ(head["retained"].size(), 128U);
  for (const char* field : {"layer",
                            "kv_head",
                            "spearman",
                            "spearman_total",
                            "mean_key_cosine",
                            "key_query_mean_cosine",
                            "log_volume_nats",
                            "rank",
                            "regularised_log_volume_nats",
                            "mean_pairwise_cosine",
                            "attention_mass_kept",
                            "output_error",
                            "attention_entropy_nats",
                            "attention_gini",
                            "attention_top_share",
                            "sink_metric",
                            "pca_explained",
                            "bound_pairs",
                            "bound_pairs_causal",
                            "bound_violations",
                            "bound_min_slack",
                            "bound_min_slack_exact"})
    EXPECT_TRUE(head.contains(field)) << field;
  for (const char* field : {"attention_entropy_nats", "attention_gini", "attention_top_share", "sink_metric"})
    EXPECT_TRUE(head[field].is_number()) << field << " is recorded in every capture";
  for (const auto& run : report["runs"])
    for (const auto& each : run["heads"]) EXPECT_EQ(each["bound_violations"], 0);
  EXPECT_EQ(report["runs"][0]["heads"][0]["attention_mass_kept"], 1.0);
}

TEST_F(WithRecording, AnalyzePrintsATable) {
  const CliResult result = run_cli({"analyze", recording()});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("spearman"));
  EXPECT_THAT(result.out, HasSubstr("keydiff"));
  EXPECT_THAT(result.out, HasSubstr("spearman by head"));
}

// Which is told to measure less where nothing is written.
TEST_F(WithRecording, AnalyzePrintsMeansOfWhatItWrites) {
  const ScratchFolder folder;
  const std::string written = folder.file("a.json").string();
  const CliResult result = run_cli({"analyze", recording(), "--json", written});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(run_cli({"analyze", recording()}).out, result.out);
  const Json run = parse_json(read_text_file(written))["runs"][0];
  struct Column {
    const char* field;
    double scale, tolerance;
  };
  const std::vector<Column> columns{{"spearman", 1, 0.0005},
                                    {"spearman_given_position", 1, 0.0005},
                                    {"mean_key_cosine", 1, 0.0005},
                                    {"key_query_mean_cosine", 1, 0.0005},
                                    {"log_volume_nats", 1, 0.005},
                                    {"mean_pairwise_cosine", 1, 0.0005},
                                    {"attention_mass_kept", 100, 0.05},
                                    {"attention_entropy_nats", 1, 0.005},
                                    {"sink_metric", 100, 0.05}};
  std::istringstream lines(result.out.substr(result.out.find("spearman by head")));
  std::string line;
  std::getline(lines, line);
  int layer = 0;
  for (; std::getline(lines, line) && !line.empty(); ++layer) {
    std::erase(line, '%');
    std::istringstream cells(line);
    int found_layer = -1;
    cells >> found_layer;
    EXPECT_EQ(found_layer, layer);
    for (const auto& [field, scale, tolerance] : columns) {
      double sum = 0, cell = 0;
      int n = 0;
      for (const Json& head : run["heads"])
        if (head["layer"] == layer) {
          sum += head[field].get<double>();
          ++n;
        }
      cells >> cell;
      EXPECT_NEAR(cell, scale * sum / n, tolerance * 1.001) << field << " of layer " << layer;
    }
  }
  EXPECT_EQ(layer, 4);
}

TEST_F(WithRecording, AnalyzeWritesTheSameNumbersAsCsv) {
  const CliResult csv = run_cli({"analyze", recording(), "--csv", "-", "--quiet"});
  ASSERT_EQ(csv.status, 0) << csv.err;
  const Json report = parse_json(run_cli({"analyze", recording(), "--json", "-", "--quiet"}).out);
  std::istringstream lines(csv.out);
  std::string names, first;
  std::getline(lines, names);
  std::getline(lines, first);
  EXPECT_THAT(names, StartsWith("run,policy,budget,block_size,layer,kv_head,retained,spearman,"));
  const Json& head = report["runs"][0]["heads"][0];
  EXPECT_THAT(first, HasSubstr("," + json_text(head["spearman"]) + ","));
  EXPECT_THAT(first, HasSubstr("," + json_text(head["log_volume_nats"]) + ","));
  EXPECT_EQ(std::ranges::count(names, ','), std::ranges::count(first, ','));
  EXPECT_EQ(run_cli({"analyze", recording(), "--csv", "-", "--json", "-"}).status, 2);
  EXPECT_EQ(run_cli({"analyze", recording(), "--csv", recording()}).status, 2) << "what is read";
}

TEST_F(WithRecording, SelectionsThatAreNotThereAreWrongUsage) {
  EXPECT_EQ(run_cli({"analyze", recording(), "--run", "h2o"}).status, 2);
  EXPECT_EQ(run_cli({"analyze", recording(), "--layers", "77"}).status, 2);
  EXPECT_EQ(run_cli({"figure", recording(), "no-such-figure", "--out", file("f.png")}).status, 2);
}

TEST_F(WithRecording, EveryFigureAndFormat) {
  for (const char* name : {"keyspace", "cosine-matrix", "attention"})
    for (const char* extension : {"png", "svg", "pdf", "h5"}) {
      const std::string out = file(std::string(name) + "." + extension);
      const CliResult result = run_cli(
          {"figure", recording(), name, "--run", "keydiff", "--layer", "1", "--kv-head", "2", "--out", out});
      EXPECT_EQ(result.status, 0) << name << "." << extension << ": " << result.err;
      ASSERT_TRUE(fs::exists(out));
      EXPECT_GT(fs::file_size(out), 500U);
    }
}

TEST_F(WithRecording, ExportAndInspect) {
  const CliResult exported = run_cli({"export", recording(), "--out", file("figures.h5")});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(run_cli({"export", recording(), "--out", file("figures.h5")}).status, 1) << "exists already";
  const CliResult inspected = run_cli({"inspect", recording()});
  EXPECT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("keydiff"));
  EXPECT_EQ(run_cli({"inspect", file("figures.h5")}).status, 0);
  const CliResult model = run_cli({"inspect", kDemoModel});
  EXPECT_EQ(model.status, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("192"));
}

// Both demo models have one configuration and one header.
TEST_F(WithRecording, HashesWeightsWhereThatIsAsked) {
  const auto hash_of = [](const std::string& model, bool weights) {
    std::vector<std::string> words{"capture", "--model", model,   "--prompt",     "Clara",
                                   "--quiet", "--force", "--out", file("hash.h5")};
    if (weights) words.emplace_back("--hash-weights");
    EXPECT_EQ(run_cli(words).status, 0);
    return parse_json(run_cli({"inspect", file("hash.h5"), "--json", "-"}).out)["model"]["sha256"];
  };
  EXPECT_EQ(hash_of(kDemoModel, false), hash_of(kDemoModel + "_sinks", false));
  EXPECT_NE(hash_of(kDemoModel, true), hash_of(kDemoModel + "_sinks", true));
  EXPECT_EQ(hash_of(kDemoModel, true), hash_of(kDemoModel, true));
}

TEST_F(WithRecording, ATruncatedRecordingIsOneSentence) {
  const std::string cut = file("cut.h5");
  fs::copy_file(recording(), cut);
  fs::resize_file(cut, fs::file_size(cut) / 2);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"analyze", cut}, {"inspect", cut}, {"export", cut, "--out", file("c.h5")}}) {
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("cut.h5"));
  }
}

TEST_F(WithRecording, ViewWithoutADisplaySaysSo) {
  const CliResult result = run_cli({"view", recording()});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("display"));
}

TEST(Cli, TokenizeThereAndBack) {
  const std::string text = "The special magic number for Paris is: 1234567.\n";
  const CliResult ids = run_cli({"tokenize", "--model", kDemoModel, "--prompt", text});
  ASSERT_EQ(ids.status, 0) << ids.err;
  const CliResult back =
      run_cli({"tokenize", "--model", kDemoModel, "--decode", "--prompt-file", "-"}, ids.out);
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(parse_json(back.out).get<std::string>(), text);
}

TEST_F(WithRecording, DiffSaysWhatOneRunKeptAndAnotherLost) {
  const std::vector<std::string> asked{"diff", "--quiet", recording(), "--run", "none", "--run", "keydiff"};
  auto with_json = asked;
  with_json.insert(with_json.end(), {"--layer", "1", "--kv-head", "0", "--json", "-"});
  const CliResult result = run_cli(with_json);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json difference = parse_json(result.out);
  EXPECT_EQ(difference["only_b"], 0) << "none keeps everything";
  EXPECT_EQ(difference["only_a"], difference["tokens"].size());
  EXPECT_EQ(difference["tokens"][0]["layer"], 1);
  EXPECT_EQ(difference["tokens"][0]["kv_head"], 0);
  EXPECT_EQ(difference["tokens"][0]["kept_by"], "none");
  for (const char* name :
       {"position", "token", "evicted_at", "margin", "attention_before", "attention_after"})
    EXPECT_TRUE(difference["tokens"][0].contains(name)) << name;
  EXPECT_THAT(run_cli(asked).out, HasSubstr("none kept, keydiff lost"));
  EXPECT_EQ(run_cli({"diff", recording(), "--run", "none"}).status, 2);
  EXPECT_EQ(run_cli({"diff", recording(), "--run", "none", "--run", "none"}).status, 2);
}

TEST_F(WithRecording, CompareFindsNothingAgainstItselfAndSomethingAgainstAnother) {
  const CliResult same = run_cli({"compare", "--quiet", recording(), recording(), "--json", "-"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(parse_json(same.out)["agree"], true);
  auto arguments = capture_arguments(file("other.h5"));
  arguments[std::size_t(std::find(arguments.begin(), arguments.end(), "128") - arguments.begin())] = "100";
  ASSERT_EQ(run_cli(arguments).status, 0);
  const CliResult other = run_cli({"compare", "--quiet", recording(), file("other.h5")});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.out, HasSubstr("beyond the tolerance"));
  EXPECT_THAT(other.err, HasSubstr("differ"));
}

}  // namespace
}  // namespace keyscope::test

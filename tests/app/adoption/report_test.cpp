// The adoption report as its users meet it.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class Report : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // What most cases ask for. Times, which would differ between two runs, are not measured.
  static std::vector<std::string> words(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"report",    "--model",    kDemoModel, "--out", out,
                                 "--budgets", "25%,4096",   "--length", "256",   "--block",
                                 "32",        "--examples", "10"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<std::string> untimed(const std::string& out, std::vector<std::string> more = {}) {
    for (const char* word : {"--policies", "keydiff,sink", "--repeat", "0", "--diagnose", "2"})
      more.emplace_back(word);
    return words(out, more);
  }

 private:
  ScratchFolder folder_;
};

TEST_F(Report, SaysWhatTasksLoseAndWhatToDo) {
  const std::string text = path("text.txt");
  std::string sentences;
  for (int i = 0; i < 200; ++i) sentences += "The prince was silent for a while and then he spoke again. ";
  std::ofstream(text) << sentences;
  const CliResult run = run_cli(
      words(path("out"), {"--policies", "keydiff,sink", "--text", text, "--repeat", "2", "--diagnose", "2"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Rule: "));
  const Json json = parse_json(read_file(path("out/report.json")));
  std::vector<std::string> tasks;
  for (const Json& task : json["tasks"]) tasks.push_back(task["task"]);
  EXPECT_EQ(tasks, (std::vector<std::string>{"niah", "niah-distractors", "phonebook", "perplexity"}));
  ASSERT_EQ(json["candidates"].size(), 4U);
  for (const Json& candidate : json["candidates"]) {
    EXPECT_GT(candidate["first_token_ms"]["median"], 0);
    EXPECT_FALSE(candidate["first_token_ratio"]["told"]) << "of two rounds";
    EXPECT_GT(candidate["retained"]["mean_pairwise_cosine"]["n"], 0);
    // A budget of more than the prompt evicts nothing, and so loses nothing.
    if (candidate["budget_text"] != "4096") continue;
    EXPECT_DOUBLE_EQ(candidate["memory_share"], 1);
    EXPECT_EQ(candidate["verdict"], "cannot tell");
    for (const Json& task : candidate["tasks"]) {
      EXPECT_EQ(task["loss"]["mean"], 0) << task;
      EXPECT_EQ(task["after_eviction"], 0) << task;
    }
  }
  EXPECT_EQ(json["tasks"][0]["n"], 10);
  for (const char* file :
       {"report.html", "report.h5", "figures/accuracy-by-memory.svg", "figures/redundancy-by-memory.svg"})
    EXPECT_TRUE(fs::exists(path("out") + "/" + file)) << file;
  EXPECT_THAT(run.out, HasSubstr("cannot be told: 2 rounds, of which at least 6 are needed"));
  EXPECT_FALSE(fs::exists(path("out/figures/first-token-by-memory.svg"))) << "there is nothing to draw";
}

TEST_F(Report, GoesOnAfterAKillWithTheSameNumbers) {
  ASSERT_EQ(run_cli(untimed(path("whole"))).status, 0);
  {
    CliProcess process(untimed(path("killed"), {"--quiet"}));
    wait_for_file(path("killed/niah-distractors/examples.jsonl"));
    EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
  }
  EXPECT_FALSE(fs::exists(path("killed/report.json")));
  const CliResult run = run_cli(untimed(path("killed")));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(read_file(path("killed/report.json")), read_file(path("whole/report.json")));
}

TEST_F(Report, BadRowsAreNamedOrSkippedAndListed) {
  const std::string rows = path("rows.jsonl");
  const std::string row =
      R"({"dataset": "passage_count", "input": "", "context": "Once upon a time.", "answers": ["1"]})";
  std::ofstream(rows) << row << "\nno json \xFF\n" << row << "\n";
  std::vector<std::string> asked{"--tasks", "longbench", "--longbench", rows};
  const CliResult refused = run_cli(untimed(path("out"), asked));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("rows.jsonl, line 2"));
  EXPECT_THAT(refused.err, HasSubstr("--skip-bad"));
  asked.emplace_back("--skip-bad");
  const CliResult run = run_cli(untimed(path("out"), asked));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Skipped: " + rows + ", line 2"));
  const Json task = parse_json(read_file(path("out/report.json")))["tasks"][0];
  EXPECT_EQ(task["n"], 2);
  EXPECT_EQ(task["bad_rows"], 1);
  EXPECT_THAT(read_file(path("out/report.html")), HasSubstr("rows.jsonl, line 2"));
}

// Three rows of one data set that are answered with what the model says, two of another that are not.
TEST_F(Report, DataSetsOfLongBenchWeighTheSame) {
  const std::string rows = path("rows.jsonl");
  const auto write_rows = [&](const std::vector<std::string>& answers) {
    std::ofstream file(rows);
    for (std::size_t i = 0; i < answers.size(); ++i)
      file << Json{{"dataset", i < 3 ? "qasper" : "multifieldqa_en"},
                   {"_id", std::to_string(i)},
                   {"input", ""},
                   {"context", "The prince was silent for a while, and then he spoke again."},
                   {"answers", {answers[i]}}}
           << "\n";
  };
  const std::vector<std::string> asked{"--tasks", "longbench", "--longbench", rows};
  write_rows(std::vector<std::string>(5, "%"));
  ASSERT_EQ(run_cli(untimed(path("first"), asked)).status, 0);
  std::vector<std::string> answers(5, "%");
  std::ifstream examples(path("first/longbench/examples.jsonl"));
  std::size_t n_said = 0;
  for (std::string line; n_said < 3 && std::getline(examples, line);) {
    const Json example = parse_json(line);
    if (example["policy"] == "none") answers[n_said++] = example["text"];
  }
  ASSERT_EQ(n_said, 3U);
  write_rows(answers);
  const CliResult run = run_cli(untimed(path("second"), asked));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("score 50.0 % over 5 examples of 2 data sets"));
  const Json task = parse_json(read_file(path("second/report.json")))["tasks"][0];
  EXPECT_DOUBLE_EQ(task["full"]["mean"], 0.5);
  EXPECT_EQ(task["full"]["n"], 5);
  EXPECT_EQ(task["data_sets"], 2);
  EXPECT_THAT(read_file(path("second/report.html")),
              HasSubstr("longbench: score, %, 5 examples of 2 data sets"));
}

TEST_F(Report, RowsOfRulerAreDataSetsByTaskAndLength) {
  fs::create_directories(path("ruler"));
  for (const char* name : {"vt.512.jsonl", "vt.1024.jsonl", "fwe.512.jsonl"}) {
    std::ofstream file(path("ruler/") + name);
    for (int i = 0; i < 3; ++i)
      file << Json{{"index", i}, {"input", "The prince spoke again. He said"}, {"outputs", {"a", "none"}}}
           << "\n";
  }
  const CliResult run = run_cli(untimed(path("out"), {"--tasks", "ruler", "--ruler", path("ruler")}));
  ASSERT_EQ(run.status, 0) << run.err;
  const Json task = parse_json(read_file(path("out/report.json")))["tasks"][0];
  EXPECT_EQ(task["n"], 9);
  EXPECT_EQ(task["data_sets"], 3);
  EXPECT_THAT(run_cli(untimed(path("none"), {"--tasks", "ruler"})).err, HasSubstr("needs --ruler FILE"));
}

// Twenty rows whose answers no model gives: no policy loses anything, and nothing follows from it.
TEST_F(Report, AModelThatSolvesNothingIsAdvisedNothing) {
  const std::string rows = path("rows.jsonl");
  std::ofstream file(rows);
  for (int i = 0; i < 20; ++i)
    file << Json{{"dataset", "passage_count"},
                 {"input", ""},
                 {"context", "The prince was silent for a while, and then he spoke again. He said it twice."},
                 {"answers", {"none"}}}
         << "\n";
  file.close();
  const CliResult run = run_cli(untimed(path("out"), {"--tasks", "longbench", "--longbench", rows}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the full cache itself does not solve longbench"));
  EXPECT_THAT(run.out, HasSubstr("not solved"));
  const Json json = parse_json(read_file(path("out/report.json")));
  EXPECT_TRUE(json["recommendation"]["policy"].is_null());
  const Json task = json["candidates"][0]["tasks"][0];
  EXPECT_EQ(task["verdict"], "cannot tell");
  EXPECT_EQ(task["affected"], 10);
  EXPECT_THAT(task["reason"], HasSubstr("the full cache itself scores 0.0 [0.0, 0.0] %"));
  EXPECT_THAT(read_file(path("out/report.html")), HasSubstr("the full cache itself scores 0.0 [0.0, 0.0] %"));
}

TEST_F(Report, OneOfOtherTasksIsNotReplacedUnasked) {
  ASSERT_EQ(run_cli(untimed(path("out"), {"--tasks", "niah,phonebook"})).status, 0);
  const std::string before = read_file(path("out/report.json"));
  const CliResult refused = run_cli(untimed(path("out"), {"--tasks", "phonebook"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr(R"(tasks is ["niah","phonebook"] there and ["phonebook"] here)"));
  EXPECT_EQ(read_file(path("out/report.json")), before);
  // What is not measured again leaves no picture behind.
  const std::vector<std::string> undiagnosed =
      words(path("out"), {"--tasks", "phonebook", "--policies", "keydiff,sink", "--repeat", "0", "--diagnose",
                          "0", "--force", "--json", path("out/numbers.json")});
  const CliResult run = run_cli(undiagnosed);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(fs::exists(path("out/figures/redundancy-by-memory.svg")));
  EXPECT_TRUE(fs::exists(path("out/figures/accuracy-by-memory.svg")));
  EXPECT_TRUE(fs::exists(path("out/numbers.json")));
  EXPECT_FALSE(fs::exists(path("out/niah")));
  EXPECT_FALSE(fs::exists(path("out/geometry-25%")));
}

TEST_F(Report, NumbersMayLieInAFolderThatIsStillToBeMade) {
  const CliResult run =
      run_cli(untimed(path("out/"), {"--tasks", "phonebook", "--json", path("out/numbers.json")}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(read_file(path("out/numbers.json")), read_file(path("out/report.json")));
}

TEST_F(Report, FilesOfOthersAreNotReplaced) {
  for (const char* name : {"report.html", "report.json", "mine.txt"}) {
    SCOPED_TRACE(name);
    const fs::path out = path(std::string("out ") + name);
    fs::create_directory(out);
    std::ofstream(out / name) << "mine";
    const CliResult run = run_cli(untimed(out.string(), {"--tasks", "phonebook", "--force"}));
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(run.err, HasSubstr("not empty, and no report's results"));
    EXPECT_EQ(read_file(out / name), "mine");
  }
}

TEST_F(Report, ResultsOfAnotherCommandAreNotDiscarded) {
  const std::vector<std::string> words{"eval",      "phonebook", "--model", kDemoModel,  "--entries", "4",
                                       "--samples", "1",         "--out",   path("out"), "--quiet"};
  ASSERT_EQ(run_cli(words).status, 0);
  const std::string before = read_file(path("out/settings.json"));
  const CliResult run = run_cli(untimed(path("out"), {"--tasks", "phonebook", "--force"}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("settings.json: of another command"));
  EXPECT_EQ(read_file(path("out/settings.json")), before);
}

TEST_F(Report, NumbersDoNotTakeANameOfItsOwnFiles) {
  for (const char* name : {"report.json", "settings.json", "phonebook/numbers.json", "figures/x"}) {
    const CliResult run =
        run_cli(untimed(path("out"), {"--tasks", "phonebook", "--json", path(std::string("out/") + name)}));
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("a report writes there itself"));
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

TEST_F(Report, WhatLiesBesideAReportIsNotDiscardedWithIt) {
  const std::vector<std::string> asked{"--tasks", "phonebook"};
  ASSERT_EQ(run_cli(untimed(path("out"), asked)).status, 0);
  fs::create_directories(path("out/geometry-mine/prompts"));
  for (const char* name : {"geometry-notes.txt", "geometry-mine/prompts/a.txt", "phonebook/notes.txt"})
    std::ofstream(path("out") + "/" + name) << "mine";
  const CliResult run = run_cli(untimed(path("out"), {"--tasks", "niah", "--force"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(fs::exists(path("out/phonebook/examples.jsonl")));
  for (const char* name : {"geometry-notes.txt", "geometry-mine/prompts/a.txt", "phonebook/notes.txt"})
    EXPECT_EQ(read_file(path("out") + "/" + name), "mine") << name;
}

// Longer than a phone book can be with the names there are.
TEST_F(Report, LongPromptsMayHoldMoreThanTheLargestPhoneBook) {
  const CliResult run = run_cli({"report", "--model", kDemoModel, "--out", path("out"), "--tasks",
                                 "phonebook", "--length", "6000", "--examples", "1", "--policies", "sink",
                                 "--budgets", "25%", "--repeat", "0", "--diagnose-length", "600"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json json = parse_json(read_file(path("out/report.json")));
  EXPECT_EQ(json["tasks"][0]["n"], 4);
  EXPECT_EQ(json["diagnosis"]["n_prompts"], 2) << "of 24 and 48 entries";
}

TEST_F(Report, PromptsThatAreAllTooLongAreNamed) {
  const CliResult run = run_cli(untimed(path("out"), {"--tasks", "phonebook", "--diagnose-length", "5"}));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--diagnose-length 5: all prompts are longer; expected at least "));
  EXPECT_FALSE(fs::exists(path("out")));
}

// Both demo models are of one architecture, so that headers alone do not tell them apart.
TEST_F(Report, AnswersOfOtherWeightsAreNotTaken) {
  fs::create_directory(path("demo_model"));
  fs::copy(kDemoModel, path("demo_model"), fs::copy_options::recursive);
  auto asked = untimed(path("out"), {"--tasks", "phonebook"});
  *(std::ranges::find(asked, kDemoModel)) = path("demo_model");
  ASSERT_EQ(run_cli(asked).status, 0);
  fs::copy_file(KEYSCOPE_SOURCE_DIR "/assets/demo_model_sinks/model.safetensors",
                path("demo_model/model.safetensors"), fs::copy_options::overwrite_existing);
  const CliResult refused = run_cli(asked);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("weights_sha256"));
}

TEST_F(Report, RefusesResultsOfOtherSettings) {
  ASSERT_EQ(run_cli(untimed(path("out"), {"--tasks", "phonebook"})).status, 0);
  const CliResult run = run_cli(untimed(path("out"), {"--tasks", "phonebook", "--seed", "3"}));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("--force"));
}

TEST_F(Report, WrongUsageIsNamed) {
  const auto fails = [&](const std::vector<std::string>& more, const std::string& message) {
    const CliResult run = run_cli(words(path("out"), more));
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(path("out")));
  };
  fails({"--tasks", "chess"}, "task chess: unknown; expected one of niah, ");
  fails({"--tasks", "niah,niah"}, "task niah: given twice");
  fails({"--tasks", "perplexity"}, "task perplexity: needs --text FILE");
  fails({"--tasks", "niah", "--text", "war.txt"}, "--text: given, but the task perplexity is not asked for");
  fails({"--policies", "nonesuch"}, "nonesuch");
}

}  // namespace
}  // namespace keyscope::test

// `reproduce` as its users meet it.

#include <csignal>
#include <filesystem>
#include <fstream>
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
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class Reproduce : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // Needles under KeyDiff and under what this version does not have, for the demo model or for another.
  std::string experiment(const std::string& repository, double published) const {
    const Json json{
        {"format", 1},
        {"name", "made"},
        {"claim", "Needles are found."},
        {"source", "a paper"},
        {"models",
         {{{"repository", repository}, {"layers", 4}, {"heads", 8}, {"kv_heads", 4}, {"hidden", 256}}}},
        {"tolerance_points", 20},
        {"tasks",
         {{{"name", "needles"}, {"kind", "niah"}, {"length", 160}, {"samples", 20}},
          {{"name", "letters"}, {"kind", "longbench"}},
          {{"name", "riddles"}, {"kind", "riddles"}}}},
        {"rows",
         {{{"what", "full cache"},
           {"task", "needles"},
           {"policy", "none"},
           {"block", 32},
           {"published", published}},
          {{"what", "KeyDiff"}, {"task", "needles"}, {"policy", "keydiff"}, {"budget", "25%"}, {"block", 32}},
          {{"what", "what it loses"},
           {"task", "needles"},
           {"policy", "keydiff"},
           {"budget", "25%"},
           {"block", 32},
           {"against", {{"policy", "none"}}},
           {"published", {{"at_most", 50}}}},
          {{"what", "best"}, {"task", "needles"}, {"policy", "best"}, {"budget", "25%"}, {"block", 32}},
          {{"what", "by letters"},
           {"task", "letters"},
           {"policy", "keydiff"},
           {"budget", "64"},
           {"block", 32}},
          {{"what", "by riddles"},
           {"task", "riddles"},
           {"policy", "keydiff"},
           {"budget", "64"},
           {"block", 32}}}}};
    std::ofstream(path("made.json")) << json.dump();
    return path("made.json");
  }

  static std::vector<std::string> words(const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> all{"reproduce", file, "--model", kDemoModel, "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  ScratchFolder folder_;
};

TEST_F(Reproduce, JudgesEveryRowAndSaysWhatCannotRun) {
  const CliResult run = run_cli(
      words(experiment("keyscope/demo_model", 100), {"--out", path("out"), "--json", path("r.json")}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("published"), HasSubstr("verdict"), HasSubstr("cannot run here: policy"),
                    HasSubstr("give --longbench FILE"), HasSubstr("\"riddles\" is not known"),
                    HasSubstr("Settled by: keyscope reproduce")));
  const Json json = parse_json(read_file(path("r.json")));
  const Json& rows = json["rows"];
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0]["points"], 100);
  EXPECT_LT(rows[0]["points_interval"][0], 100) << "20 examples of which none failed";
  EXPECT_EQ(rows[0]["verdict"], "agrees") << rows[0];
  EXPECT_EQ(rows[1]["verdict"], "cannot tell");
  EXPECT_EQ(rows[1]["reason"], "no number was published");
  EXPECT_NEAR(rows[2]["points"].get<double>(), rows[1]["points"].get<double>() - 100, 1e-9);
  EXPECT_EQ(rows[2]["verdict"], "agrees");
  for (int i : {3, 4, 5}) {
    EXPECT_EQ(rows[i]["verdict"], "cannot tell");
    EXPECT_THAT(rows[i]["reason"].get<std::string>(), HasSubstr("cannot run here"));
    EXPECT_EQ(rows[i]["points"], nullptr);
  }
  EXPECT_TRUE(fs::exists(path("out/needles-b32/examples.jsonl")));
  EXPECT_THAT(run.out, HasSubstr(read_file(path("out/table.txt"))));
}

TEST_F(Reproduce, DiffersWhereTheWholeIntervalIsElsewhere) {
  const CliResult run = run_cli(words(experiment("keyscope/demo_model", 10), {"--json", path("r.json")}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(parse_json(read_file(path("r.json")))["rows"][0]["verdict"], "differs");
}

TEST_F(Reproduce, OnAnotherModelOrWithOtherPromptsItSettlesNothing) {
  const auto reason = [&](const std::string& file, const std::vector<std::string>& more) {
    auto asked = words(file, {"--json", "-"});
    asked.insert(asked.end(), more.begin(), more.end());
    const CliResult run = run_cli(asked);
    EXPECT_EQ(run.status, 0) << run.err;
    const Json row = parse_json(run.out)["rows"][0];
    EXPECT_EQ(row["verdict"], "cannot tell");
    EXPECT_EQ(row["points"], 100) << "it ran all the same";
    return row["reason"].get<std::string>();
  };
  EXPECT_THAT(reason(experiment("org/Model-8B", 100), {"--samples", "5"}),
              HasSubstr("not the published model"));
  EXPECT_THAT(reason(experiment("keyscope/demo_model", 100), {"--samples", "5"}), HasSubstr("other lengths"));
}

TEST_F(Reproduce, JudgesPartsByThemselves) {
  std::ofstream(path("books.json")) << R"({"format": 1, "name": "books", "claim": "c", "source": "s",
    "models": [{"repository": "keyscope/demo_model", "layers": 4, "heads": 8, "kv_heads": 4, "hidden": 256}],
    "tolerance_points": 100, "tasks": [{"name": "books", "kind": "phonebook", "entries": [6, 12, 5000]}],
    "rows": [{"what": "full", "task": "books", "policy": "none", "block": 64, "published": 50,
              "published_parts": {"6": 60, "12": 40, "5000": 0}}]})";
  const CliResult run = run_cli(words(path("books.json"), {"--json", path("r.json"), "--out", path("out")}));
  ASSERT_EQ(run.status, 0) << run.err;
  const Json rows = parse_json(read_file(path("r.json")))["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["n"], 10);
  EXPECT_THAT(rows[0]["reason"].get<std::string>(), HasSubstr("5000 entries")) << "its average is of all";
  for (int i : {1, 2}) {
    EXPECT_EQ(rows[i]["n"], 5);
    EXPECT_EQ(rows[i]["verdict"], "agrees");
  }
  EXPECT_DOUBLE_EQ(rows[0]["points"],
                   (rows[1]["points"].get<double>() + rows[2]["points"].get<double>()) / 2);
  EXPECT_THAT(rows[3]["reason"].get<std::string>(), HasSubstr("cannot run here: there is no part \"5000\""));
}

TEST_F(Reproduce, TakesSharesAndTheGlobalEvictionRatio) {
  std::ofstream(path("made.json")) << R"({"format": 1, "name": "made", "claim": "c", "source": "s",
    "models": [{"repository": "keyscope/demo_model", "layers": 4, "heads": 8, "kv_heads": 4, "hidden": 256}],
    "tolerance_points": 5,
    "tasks": [{"name": "needles", "kind": "niah", "length": 200, "samples": 20}],
    "rows": [
      {"what": "kept", "task": "needles", "policy": "keydiff", "budget": "30%", "block": 32},
      {"what": "of all", "task": "needles", "policy": "keydiff", "budget": "30%", "block": 32,
       "share_of": {"policy": "none"}, "published": {"at_least": 0, "at_most": 100}},
      {"what": "none of all", "task": "needles", "policy": "sink", "budget": "10%", "block": 32,
       "share_of": {"policy": "none"}},
      {"what": "none gone", "task": "needles", "policy": "none", "block": 32, "score": "gone_everywhere"},
      {"what": "gone", "task": "needles", "policy": "sink", "budget": "10%", "block": 32, "score": "gone_everywhere"},
      {"what": "typo", "task": "needles", "policy": "none", "block": 32, "score": "recal"}]})";
  const CliResult run = run_cli(words(path("made.json"), {"--json", path("r.json")}));
  ASSERT_EQ(run.status, 0) << run.err;
  const Json rows = parse_json(read_file(path("r.json")))["rows"];
  EXPECT_NEAR(rows[1]["points"].get<double>(), rows[0]["points"].get<double>(), 1e-9)
      << "the full cache finds all";
  EXPECT_EQ(rows[1]["verdict"], "agrees");
  EXPECT_EQ(rows[2]["points"], 0) << "sinks and the latest rows hold no needle";
  EXPECT_GT(rows[2]["points_interval"][1], 10) << "none of 20 does not show that none of all is";
  EXPECT_EQ(rows[3]["points"], 0);
  EXPECT_GT(rows[4]["points"], 50);
  EXPECT_THAT(rows[5]["reason"].get<std::string>(),
              HasSubstr("there is no score \"recal\"; of niah there are"));
}

// Two answers a problem, of which those problems count that outgrow the budget under the full cache.
TEST_F(Reproduce, CountsProblemsThatOutgrowTheBudget) {
  const std::string problem(400, 'x');
  std::ofstream(path("math.jsonl"))
      << R"({"problem": "1 + 1", "answer": "2", "unique_id": "short"})" << '\n'
      << Json{{"problem", "What is one of " + problem}, {"answer", "3"}, {"unique_id", "long"}}.dump()
      << '\n';
  std::ofstream(path("made.json")) << R"({"format": 1, "name": "made", "claim": "c", "source": "s",
    "models": [{"repository": "keyscope/demo_model", "layers": 4, "heads": 8, "kv_heads": 4, "hidden": 256}],
    "tolerance_points": 100, "tasks": [{"name": "problems", "kind": "math500", "answers": 2,
      "temperature": 0.9, "top_p": 0.9, "max_new_tokens": 4}],
    "rows": [
      {"what": "all", "task": "problems", "policy": "keydiff", "budget": "100", "block": 64, "score": "exact"},
      {"what": "longer", "task": "problems", "policy": "keydiff", "budget": "100", "block": 64, "only": "over_budget"},
      {"what": "none", "task": "problems", "policy": "keydiff", "budget": "4000", "block": 64, "only": "over_budget"}]})";
  const CliResult run =
      run_cli(words(path("made.json"), {"--math500", path("math.jsonl"), "--json", path("r.json")}));
  ASSERT_EQ(run.status, 0) << run.err;
  const Json rows = parse_json(read_file(path("r.json")))["rows"];
  EXPECT_EQ(rows[0]["n"], 2) << "two answers of a problem are one example";
  EXPECT_EQ(rows[1]["n"], 1);
  EXPECT_EQ(rows[2]["n"], 0);
  EXPECT_THAT(rows[2]["reason"].get<std::string>(), HasSubstr("no example is of that kind"));
}

TEST_F(Reproduce, GoesOnAfterAKillWithTheSameBytes) {
  const std::string file = experiment("keyscope/demo_model", 100);
  ASSERT_EQ(run_cli(words(file, {"--out", path("whole")})).status, 0);
  {
    CliProcess process(words(file, {"--out", path("killed")}));
    wait_for_file(path("killed/needles-b32/examples.jsonl"));
    process.end_by(SIGKILL);
  }
  const CliResult run = run_cli(words(file, {"--out", path("killed")}));
  ASSERT_EQ(run.status, 0) << run.err;
  for (const char* name : {"results.json", "table.txt", "settings.json", "needles-b32/examples.jsonl"})
    EXPECT_EQ(read_file(path("whole/") + name), read_file(path("killed/") + name)) << name;
  const CliResult other = run_cli(words(file, {"--out", path("whole"), "--samples", "5"}));
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("results of other settings"));
}

TEST_F(Reproduce, SaysWhatWouldBeRun) {
  const CliResult run = run_cli(words(experiment("keyscope/demo_model", 100), {"--dry-run"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("40 results"), HasSubstr("KeyDiff: would be run"),
                             HasSubstr("best: cannot run here: policy \"best\" is not known")));
}

}  // namespace
}  // namespace keyscope::test

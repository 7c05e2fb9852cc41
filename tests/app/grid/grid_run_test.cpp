// `grid` as its users meet it.

#include "app/grid/grid_run.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
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

class Grid : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // The options of a small grid, of which some are given other values.
  static std::vector<std::string> words(const std::string& out,
                                        const std::map<std::string, std::string>& others = {}) {
    std::map<std::string, std::string> options{{"--model", kDemoModel},
                                               {"--out", out},
                                               {"--scorer", "keydiff,random"},
                                               {"--protect", "none,recent:0.1"},
                                               {"--granularity", "head,layer"},
                                               {"--tasks", "niah,phonebook"},
                                               {"--length", "160"},
                                               {"--block", "32"},
                                               {"--examples", "5"}};
    for (const auto& [name, value] : others) options[name] = value;
    std::vector<std::string> all{"grid", "--quiet"};
    for (const auto& [name, value] : options) {
      all.push_back(name);
      if (!value.empty()) all.push_back(value);
    }
    return all;
  }

  // Every file of a folder but what a call took, and the folders' names.
  static std::map<std::string, std::string> bytes_of(const fs::path& out) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(out))
      if (entry.is_regular_file() && entry.path().filename() != "cost.json")
        all[fs::relative(entry.path(), out).string()] = read_file(entry.path());
    return all;
  }

 private:
  ScratchFolder folder_;
};

TEST(GridFiles, AreKnownByTheirNames) {
  for (const char* name : {"results.json", "settings.json", "grid.h5", "grid-lead.svg", "grid-split.png",
                           "niah/examples.jsonl", "phonebook"})
    EXPECT_TRUE(grid::is_of_grid(name)) << name;
  for (const char* name : {"mine.json", "lead.svg", "../results.json", ""})
    EXPECT_FALSE(grid::is_of_grid(name)) << name;
}

TEST_F(Grid, RunsEveryMethodAndDrawsWhatSlotsChange) {
  const CliResult run = run_cli(words(path("out"), {{"--json", path("grid.json")}}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("the full cache has"), HasSubstr("With protection the scorers (keydiff)"),
                    HasSubstr("results, 0 of them from before")));
  Json json = parse_json(read_file(path("grid.json")));
  EXPECT_GT(json["cost"]["tokens_shared"], 0) << "prompts begin alike under all methods";
  json.erase("cost");
  EXPECT_EQ(json, parse_json(read_file(path("out/results.json"))));
  std::set<std::string> methods;
  for (const Json& cell : json["cells"]) methods.insert(cell["policy"].get<std::string>());
  EXPECT_EQ(methods, (std::set<std::string>{"keydiff", "keydiff:protect=recent:0.1", "random",
                                            "random:protect=recent:0.1", "keydiff:granularity=layer"}));
  EXPECT_EQ(json["cells"].size(), 2U * 2 * 5);
  // Every number can be checked by hand.
  double recall = 0;
  int n = 0;
  std::ifstream lines(path("out/niah/examples.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse_json(line);
    if (row["policy"] != "keydiff" || row["budget_text"] != "25%") continue;
    recall += row["scores"]["recall"].get<double>();
    ++n;
  }
  EXPECT_EQ(n, 5) << "five depths";
  EXPECT_EQ(json["cells"][0]["n"], n);
  EXPECT_NEAR(json["cells"][0]["points"].get<double>(), 100 * recall / n, 1e-9);
  for (const char* figure : {"grid-lead", "grid-scorer", "grid-protect", "grid-granularity"})
    for (const char* extension : {".png", ".svg", ".pdf"})
      EXPECT_TRUE(fs::exists(path("out/") + figure + extension)) << figure << extension;
  EXPECT_TRUE(fs::exists(path("out/grid.h5")));
  EXPECT_FALSE(fs::exists(path("out/grid-split.svg"))) << "nothing was split in another way";
}

TEST_F(Grid, GoesOnAfterAKillWithTheSameBytes) {
  ASSERT_EQ(run_cli(words(path("whole"))).status, 0);
  {
    CliProcess process(words(path("killed")));
    wait_for_file(path("killed/phonebook/examples.jsonl"));
    EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
  }
  EXPECT_FALSE(fs::exists(path("killed/results.json")));
  const CliResult run = run_cli(words(path("killed")));
  ASSERT_EQ(run.status, 0) << run.err;
  const auto whole = bytes_of(path("whole")), again = bytes_of(path("killed"));
  ASSERT_EQ(whole.size(), again.size());
  for (const auto& [name, bytes] : whole) EXPECT_EQ(bytes, again.at(name)) << name;
}

TEST_F(Grid, EndsByCtrlCAndSaysHowToGoOn) {
  CliProcess process(words(path("out"), {{"--examples", "200"}}));
  wait_for_file(path("out/niah/examples.jsonl"));
  EXPECT_EQ(process.end_by(SIGINT), 130);
  const CliResult plan = run_cli(words(path("out"), {{"--examples", "200"}, {"--dry-run", ""}}));
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("5 methods in 2 settings"), HasSubstr("keydiff:granularity=layer")));
}

TEST_F(Grid, ResultsOfOtherSlotsAreNotMixed) {
  ASSERT_EQ(run_cli(words(path("out"))).status, 0);
  const CliResult refused = run_cli(words(path("out"), {{"--full", ""}, {"--tasks", "niah"}}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("crossed is"), HasSubstr("--force")));
  ASSERT_EQ(run_cli(words(path("out"), {{"--full", ""}, {"--tasks", "niah"}, {"--force", ""}})).status, 0);
  EXPECT_FALSE(fs::exists(path("out/phonebook"))) << "answers to what is not asked any more";
  EXPECT_EQ(parse_json(read_file(path("out/results.json")))["grid"]["crossed"].size(), 4U);
}

TEST_F(Grid, RefusesWhatCannotBe) {
  const auto refused = [&](const std::string& option, const std::string& value, const char* word) {
    const CliResult run = run_cli(words(path("out"), {{option, value}}));
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(word));
    EXPECT_FALSE(fs::exists(path("out")));
  };
  refused("--tasks", "perplexity", "perplexity");
  refused("--cross", "layer", "there is no such slot");
  refused("--scorer", "none", "evicts nothing");
  refused("--scorer", "keydiff:granularity=layer", "slot of its own");
  refused("--protect", "none,none", "given twice");
  refused("--protect", "everything", "everything");
  refused("--json", path("out/results.json"), "choose another name");
}

}  // namespace
}  // namespace keyscope::test

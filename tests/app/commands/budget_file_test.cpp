// Budgets of their own for layers and heads.

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/app/commands/cli_run.hpp"

namespace keyscope::test {
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
  const Json run = Json::parse(analysis.out).at("runs").at(0);
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
  std::ofstream(folder.path() / "ids.json") << Json(std::vector<int>(9000, 7)).dump();
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
}  // namespace keyscope::test

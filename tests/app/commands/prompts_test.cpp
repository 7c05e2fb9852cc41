// `keyscope prompts`: lengths of a file's prompts, and what budgets keep of them.

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/app/commands/cli_run.hpp"

namespace keyscope::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class Prompts : public ::testing::Test {
 protected:
  Prompts() {
    std::ofstream file(path("p.jsonl"));
    file << R"({"ids": [1, 80, 147, 20]})" << '\n' << R"({"ids": [1, 80]})" << '\n';
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  CliResult run(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"prompts", path("p.jsonl"), "--model", kDemoModel};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }

  ScratchFolder folder_;
};

TEST_F(Prompts, JsonHasLengthsHistogramAndRatios) {
  const CliResult result = run({"--budget", "2", "--budget", "4", "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["lengths"], Json({4, 2}));
  EXPECT_EQ(json["budgets"][0], Json({{"budget", 2}, {"mean_compression_ratio", 0.75}}));
  EXPECT_EQ(json["budgets"][1]["mean_compression_ratio"], 1.0);
  EXPECT_EQ(json["histogram"].size(), 3U) << "2, 3 and 4 tokens";
  EXPECT_EQ(json["median"], 3.0);
}

TEST_F(Prompts, TheTableSaysTheSame) {
  const CliResult result = run({"--budget", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 prompts: 2 to 4 tokens, mean 3"));
  EXPECT_THAT(result.out, HasSubstr("       2  0.750"));
}

TEST_F(Prompts, TheFigureIsDrawnOrExported) {
  for (const char* name : {"l.png", "l.svg", "l.h5"}) {
    const CliResult result = run({"--budget", "3", "--out", path(name)});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_GT(std::filesystem::file_size(path(name)), 1000U) << name;
  }
  EXPECT_EQ(run({"--out", path("l.png")}).status, 1) << "kept unless replaced";
  EXPECT_EQ(run({"--out", path("l.png"), "--force"}).status, 0);
  EXPECT_EQ(run({"--out", path("l.jpeg")}).status, 2);
}

TEST_F(Prompts, WhatIsWrongIsSaid) {
  EXPECT_EQ(run({"--budget", "0"}).status, 2);
  std::ofstream(path("p.jsonl")) << R"({"ids": []})" << '\n';
  const CliResult result = run({});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("line 1"));
}

}  // namespace
}  // namespace keyscope::test

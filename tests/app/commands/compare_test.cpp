// Runs compared head by head, and the story of one token, as the command line gives them.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/nexus.hpp"
#include "base/json.hpp"
#include "tests/support/captured_phonebook.hpp"

namespace keyscope::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

using Comparison = CapturedPhonebook;

TEST_F(Comparison, AHeadMapIsTheDifferenceOfAnalyze) {
  const CliResult drawn =
      run_cli({"figure", path("r.h5"), "head-map", "--run", "keydiff", "--measure", "log_volume_nats",
               "--reference", "sink", "--out", path("f.h5"), "--force"});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  const auto figure = figures::read_figures(path("f.h5")).figures.at(0);
  const auto& map = *figure.panels.at(0).heatmap;
  EXPECT_THAT(figure.title, HasSubstr("keydiff − sink"));
  const CliResult analyzed =
      run_cli({"analyze", path("r.h5"), "--run", "keydiff", "--run", "sink", "--quiet", "--json", "-"});
  ASSERT_EQ(analyzed.status, 0) << analyzed.err;
  const json runs = parse_json(analyzed.out)["runs"];
  ASSERT_EQ(runs[0]["heads"].size(), 16U);
  for (std::size_t i = 0; i < 16; ++i) {
    const json &here = runs[0]["heads"][i], &there = runs[1]["heads"][i];
    EXPECT_FLOAT_EQ(
        map.values(here["layer"].get<int>(), here["kv_head"].get<int>()),
        static_cast<float>(here["log_volume_nats"].get<double>() - there["log_volume_nats"].get<double>()));
  }
}

TEST_F(Comparison, TheTableSaysWhatTellsRunsOfOnePolicyApart) {
  const CliResult captured =
      run_cli({"capture", "--quiet", "--model", kDemoModel, "--prompt",
               "Anna: 12\nBert: 34\nCarl: 56\nAnna:", "--policy", "keydiff", "--policy",
               "keydiff:anchor=median", "--budget", "12", "--block", "4", "--out", path("two.h5")});
  ASSERT_EQ(captured.status, 0) << captured.err;
  const CliResult two = run_cli({"analyze", path("two.h5"), "--quiet"});
  EXPECT_THAT(two.out, HasSubstr("\nkeydiff-2  keydiff, anchor median\n")) << two.err;
  EXPECT_THAT(run_cli({"analyze", path("r.h5"), "--quiet"}).out, Not(HasSubstr("anchor")));
}

TEST_F(Comparison, WhatDoesNotExistIsWrongUsage) {
  const auto status = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"figure", path("r.h5"), "--out", path("g.h5"), "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments).status;
  };
  EXPECT_EQ(status({"head-map", "--measure", "volume"}), 2);
  EXPECT_EQ(status({"head-map", "--reference", "tova"}), 2);
  EXPECT_EQ(status({"attention", "--reference", "sink"}), 2);
  EXPECT_EQ(status({"head-map", "--margins"}), 2);
  EXPECT_EQ(status({"lifespans", "--margins", "--run", "sink"}), 0);
}

TEST_F(Comparison, ATokensStoryIsPrintedAndWrittenAsJson) {
  const std::vector<std::string> about{"inspect", path("r.h5"), "--token", "9",
                                       "--run",   "keydiff",    "--layer", "1"};
  auto with_json = about;
  with_json.insert(with_json.end(), {"--json", "-"});
  const CliResult written = run_cli(with_json);
  ASSERT_EQ(written.status, 0) << written.err;
  const json story = parse_json(written.out);
  EXPECT_EQ(story["position"], 9);
  EXPECT_EQ(story["layer"], 1);
  EXPECT_EQ(story["arrived"], 0);
  ASSERT_FALSE(story["scores"].empty());
  EXPECT_EQ(story["scores"][0]["n_rows"], 32);
  EXPECT_LE(story["attended_to"][0]["position"].get<int>(), 9);
  EXPECT_GT(story["attended_by"][0]["position"].get<int>(), 9);
  const CliResult printed = run_cli(about);
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("attended_by"));
  EXPECT_THAT(printed.out, Not(HasSubstr("scores_missing"))) << "a remark that there is none of";
  EXPECT_EQ(run_cli({"inspect", path("r.h5"), "--token", "120"}).status, 2);
  EXPECT_EQ(run_cli({"inspect", path("r.h5"), "--layer", "1"}).status, 2);
  EXPECT_EQ(run_cli({"inspect", path("r.h5"), "--token", "9", "--run", "tova"}).status, 2);
}

}  // namespace
}  // namespace keyscope::test

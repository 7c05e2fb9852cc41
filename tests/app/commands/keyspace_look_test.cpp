// `keyscope figure keyspace` by projection, colour and queries.

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/nexus.hpp"
#include "tests/app/commands/cli_run.hpp"

namespace keyscope::test {
namespace {

using ::testing::HasSubstr;

class KeyspaceLook : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    const std::vector<std::string> arguments{
        "capture",  "--model",   kDemoModel, "--prompt-file", kDemoModel + "/prompts/phonebook.txt",
        "--policy", "none",      "--policy", "keydiff",       "--policy",
        "tova",     "--budget",  "40",       "--block",       "32",
        "--quiet",  "--dtype",   "float32",  "--max-tokens",  "120",
        "--out",    path("r.h5")};
    const CliResult result = run_cli(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string path(const std::string& name) { return (folder_->path() / name).string(); }
  static CliResult draw(std::vector<std::string> more) {
    std::vector<std::string> arguments{"figure", path("r.h5"), "keyspace", "--out", path("f.h5"), "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }
  static figures::Figure drawn(const std::vector<std::string>& more) {
    const CliResult result = draw(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return figures::read_figures(path("f.h5")).figures.at(0);
  }

  static ScratchFolder* folder_;
};
ScratchFolder* KeyspaceLook::folder_ = nullptr;

// What `analyze` prints is the mean of what the figure shows.
TEST_F(KeyspaceLook, AgainstTheAnchorAgreesWithAnalyze) {
  const figures::Figure figure =
      drawn({"--run", "none", "--layer", "1", "--kv-head", "1", "--projection", "anchor", "--queries"});
  EXPECT_EQ(figure.view.projection, "anchor");
  std::vector<float> cosines;
  for (const auto& series : figure.panels.at(0).points) {
    if (series.id == "retained" || series.id == "evicted")
      cosines.insert(cosines.end(), series.x.begin(), series.x.end());
    if (series.id != "queries") continue;
    EXPECT_GT(series.x.size(), 120U) << "of several heads";
  }
  ASSERT_EQ(cosines.size(), 120U);
  const CliResult result = run_cli({"analyze", path("r.h5"), "--no-bounds", "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  for (const auto& head : report.at("runs").at(0).at("heads")) {
    if (head.at("layer") != 1 || head.at("kv_head") != 1) continue;
    EXPECT_NEAR(std::accumulate(cosines.begin(), cosines.end(), 0.0) / 120,
                head.at("mean_key_cosine").get<double>(), 1e-6);
  }
}

TEST_F(KeyspaceLook, ColoursComeWithTheirScale) {
  const figures::Figure figure = drawn({"--run", "keydiff", "--colour", "score"});
  const figures::Panel& panel = figure.panels.at(0);
  ASSERT_TRUE(panel.scale);
  EXPECT_EQ(panel.scale->long_name, "score by keydiff");
  EXPECT_GE(panel.scale->low, -1);
  EXPECT_LE(panel.scale->high, 1);
  EXPECT_TRUE(drawn({"--projection", "pca3d"}).panels.at(0).is_3d());
}

TEST_F(KeyspaceLook, WhatCannotBeIsRefusedBeforeAnythingIsDrawn) {
  const auto refusal = [](const std::vector<std::string>& more) {
    const CliResult result = draw(more);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(refusal({"--projection", "tsne"}), HasSubstr("expected one of pca, pca3d, anchor"));
  EXPECT_THAT(refusal({"--colour", "mood"}),
              HasSubstr("decision, position, attention, score, margin, class"));
  EXPECT_THAT(refusal({"--projection", "anchor", "--components", "3"}), HasSubstr("'anchor' has none"));
  EXPECT_THAT(refusal({"--run", "tova", "--colour", "score"}), HasSubstr("attention weights"));
  EXPECT_THAT(refusal({"--run", "none", "--colour", "margin"}), HasSubstr("evicts nothing"));
  EXPECT_THAT(refusal({"--layers", "all", "--colour", "position"}), HasSubstr("position"));
}

}  // namespace
}  // namespace keyscope::test

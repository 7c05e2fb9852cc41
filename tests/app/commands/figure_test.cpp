#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/nexus.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/captured_phonebook.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::test {

// `keyscope figure` for many heads at once: how the command line asks for small multiples.

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FigureOfHeads : public CapturedPhonebook {
 protected:
  static CliResult draw(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> arguments{"figure", path("r.h5"), name, "--out", path("f.h5"), "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }
  static figures::SmallMultiples grid(const std::string& name, const std::vector<std::string>& more) {
    const CliResult result = draw(name, more);
    EXPECT_EQ(result.status, 0) << result.err;
    return figures::read_figures(path("f.h5")).figures.at(0).multiples.value();
  }
};

// So that who has the paper at hand finds its figures.
TEST(FigureHelp, NamesEveryFigureAsThePaperDoesToo) {
  for (const char* command : {"figure", "export"}) {
    const CliResult help = run_cli({command, "--help"});
    EXPECT_THAT(help.out, HasSubstr("cosine-and-attention (fig2), score-attention, ")) << command;
    for (const auto& alias : figures::figure_aliases())
      EXPECT_THAT(help.out, HasSubstr(alias.paper)) << command;
  }
}

TEST_F(FigureOfHeads, ListsMakeRowsAndColumns) {
  const auto some = grid("keyspace", {"--layers", "0-1,3", "--kv-heads", "2"});
  EXPECT_THAT(some.rows, ElementsAre("0", "1", "3"));
  EXPECT_THAT(some.columns, ElementsAre("2"));
  EXPECT_EQ(grid("score-attention", {"--layers", "all"}).columns.size(), 4U);
  EXPECT_EQ(grid("cosine-matrix", {"--kv-heads", "all"}).rows.size(), 4U);
  EXPECT_EQ(grid("attention", {"--layer", "1", "--query-heads", "all"}).columns.size(), 8U);
}

// A container may have none; what Pango would measure then is left over in memory.
TEST_F(FigureOfHeads, WithoutFontsSaysSo) {
  std::ofstream(path("fonts.conf")) << "<fontconfig></fontconfig>";
  setenv("FONTCONFIG_FILE", path("fonts.conf").c_str(), 1);
  for (const char* name : {"a.svg", "a.pdf", "a.png"}) {
    const CliResult result = run_cli({"figure", path("r.h5"), "keyspace", "--out", path(name)});
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("no font was found"), HasSubstr("fonts-dejavu-core")));
    EXPECT_FALSE(std::filesystem::exists(path(name)));
  }
  unsetenv("FONTCONFIG_FILE");
}

TEST_F(FigureOfHeads, ContradictionsAreWrongUsage) {
  EXPECT_EQ(draw("keyspace", {"--layers", "0", "--layer", "1"}).status, 2);
  EXPECT_EQ(draw("attention", {"--kv-heads", "0", "--query-heads", "1"}).status, 2);
  EXPECT_EQ(draw("keyspace", {"--layers", ""}).status, 2);
  EXPECT_EQ(draw("keyspace", {"--layers", "9"}).status, 2);
  const CliResult foreign = draw("log-volume", {"--layers", "all"});
  EXPECT_EQ(foreign.status, 2);
  EXPECT_THAT(foreign.err, HasSubstr("--layers does nothing to log-volume"));
}

// The work grows with the square of the keys: nobody should wait for hours, or run out of memory, unwarned.
TEST(Figure, ADendrogramOfTooManyKeysIsRefusedAndSaysWhatCanBeDone) {
  const ScratchFolder folder;
  const std::string path = folder.file("long.h5").string();
  recording::SyntheticOptions options;
  options.n_layers = 1;
  options.layers = {0};
  options.n_heads = options.n_kv_heads = 1;
  options.head_dim = 2;
  options.n_prompt = figures::kMostKeysInDendrogram + 1;
  options.block_size = 8192;
  options.values = options.attention = options.logits = false;
  auto writer = recording::make_recording_writer(path, false);
  recording::SyntheticCapture(options).send(*writer);
  writer->end(true);
  std::vector<std::string> words{
      "figure", path,     "cosine-matrix", "--order", "dendrogram", "--out", folder.file("f.h5").string(),
      "--run",  "keydiff"};
  const CliResult refused = run_cli(words);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("32,769 keys"), HasSubstr("at most 32,768"),
                                 HasSubstr("earlier block or retained keys only"),
                                 Not(HasSubstr("let `keyscope figure` do it"))));
  words.emplace_back("--retained");
  const CliResult drawn = run_cli(words);
  EXPECT_EQ(drawn.status, 0) << drawn.err;
}

}  // namespace

// `keyscope figure keyspace` by projection, colour and queries.

namespace {

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
  const auto report = parse_json(result.out);
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

TEST_F(KeyspaceLook, IsAnimatedBlockByBlock) {
  const std::vector<std::string> words{"figure", path("r.h5"), "keyspace",    "--dpi",
                                       "40",     "--out",      path("k.apng")};
  EXPECT_EQ(run_cli(words).status, 0);
  EXPECT_THAT(read_file(path("k.apng")), HasSubstr("acTL"));
  EXPECT_EQ(run_cli(words).status, 1) << "it exists already";
  const CliResult still = run_cli({"figure", path("r.h5"), "head-map", "--out", path("m.apng")});
  EXPECT_EQ(still.status, 2);
  EXPECT_THAT(still.err, HasSubstr("does not change from block to block"));
}

TEST_F(KeyspaceLook, OrdersAreOfTheirFigures) {
  const CliResult refused =
      run_cli({"figure", path("r.h5"), "cosine-matrix", "--order", "loss", "--out", path("c.h5")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("cosine-matrix has position, dendrogram"));
  EXPECT_EQ(run_cli({"figure", path("r.h5"), "token-lives", "--run", "keydiff", "--order", "loss", "--out",
                     path("l.h5")})
                .status,
            0);
  EXPECT_TRUE(figures::read_figures(path("l.h5")).figures.at(0).panels.at(0).order->rows_only);
}

TEST_F(KeyspaceLook, WhatCannotBeIsRefusedBeforeAnythingIsDrawn) {
  const auto refusal = [](const std::vector<std::string>& more) {
    const CliResult result = draw(more);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(refusal({"--projection", "tsne"}),
              HasSubstr("expected one of pca, pca13, pca23, pca3d, anchor"));
  EXPECT_THAT(refusal({"--colour", "mood"}),
              HasSubstr("decision, position, attention, score, margin, class"));
  EXPECT_THAT(refusal({"--projection", "anchor", "--components", "3"}), HasSubstr("'anchor' has none"));
  EXPECT_THAT(refusal({"--run", "tova", "--colour", "score"}), HasSubstr("attention weights"));
  EXPECT_THAT(refusal({"--run", "none", "--colour", "margin"}), HasSubstr("evicts nothing"));
  EXPECT_THAT(refusal({"--layers", "all", "--colour", "position"}), HasSubstr("position"));
}

}  // namespace

}  // namespace keyscope::test

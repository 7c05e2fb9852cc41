#include "app/evaluation/perplexity.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <numbers>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three windows that score positions 2 to 7 in two bins: 1 and 3 nats under the full cache, half a nat more
// with a budget.
class PerplexityReports : public ::testing::Test {
 protected:
  PerplexityReports() {
    set_.examples.resize(3);
    set_.bins = {6, 2};
    set_.first_scored = 2;
    set_.n_scored = 18;
    set_.n_bytes = 36;
    results_ = made_results(3, grid_, [](std::size_t, const GridPoint& point) {
      const double more = point.evicts() ? 0.5 : 0;
      return Scores{{"nll_nats", 2 + more}, {"nll_nats 2-4", 1 + more}, {"nll_nats 5-7", 3 + more}};
    });
    cells_ = perplexity_report(ScoreTable(results_, grid_), set_, 1);
  }

  const std::vector<GridPoint> grid_ = grid_of(made_settings());
  PerplexitySet set_;
  std::vector<ExampleResult> results_;
  std::vector<PerplexityCell> cells_;
};

TEST_F(PerplexityReports, RaiseMeansOfLogarithms) {
  ASSERT_EQ(cells_.size(), 6U);
  EXPECT_DOUBLE_EQ(cells_[0].all.perplexity.mean, std::exp(2.0));
  EXPECT_DOUBLE_EQ(cells_[0].all.perplexity.low, std::exp(2.0));
  EXPECT_DOUBLE_EQ(cells_[0].bits_per_byte.mean, 2 / std::numbers::ln2 / 2);
  EXPECT_DOUBLE_EQ(cells_[1].all.ratio.mean, std::exp(0.5));
  EXPECT_DOUBLE_EQ(cells_[1].curve[1].perplexity.mean, std::exp(3.5));
  EXPECT_EQ(cells_[2].budget_rows, 20);
}

TEST_F(PerplexityReports, SayInJsonWhereOnTheCurveTheyAre) {
  const auto report = perplexity_json(cells_, grid_, set_);
  EXPECT_EQ(report["tokens_scored"], 18);
  const auto& cell = report["cells"][1];
  EXPECT_EQ(cell["n"], 3);
  EXPECT_EQ(cell["curve"].size(), 2U);
  EXPECT_EQ(cell["curve"][1]["first"], 5);
  EXPECT_EQ(cell["curve"][1]["last"], 7);
  EXPECT_DOUBLE_EQ(cell["curve"][1]["ratio"].get<double>(), std::exp(0.5));
  EXPECT_FALSE(report["cells"][0].contains("ratio"));
  EXPECT_THAT(perplexity_table(cells_, grid_), HasSubstr("1.6487 (1.6487 to 1.6487)"));
}

TEST_F(PerplexityReports, AreDrawnWithAPairOfPanelsForEachBudgetAndBlock) {
  const figures::Figure figure = perplexity_figure(cells_, grid_, set_, "made");
  ASSERT_EQ(figure.panels.size(), 8U);
  EXPECT_EQ(figure.panels[0].title, "N = 10, B = 4");
  ASSERT_EQ(figure.panels[0].lines.size(), 2U);
  EXPECT_EQ(figure.panels[0].lines[0].id, "none");
  EXPECT_THAT(figure.panels[0].lines[0].x, ElementsAre(3, 6));
  EXPECT_FLOAT_EQ(figure.panels[0].lines[1].y[0], std::exp(1.5F));
  ASSERT_EQ(figure.panels[1].lines.size(), 1U);
  EXPECT_FLOAT_EQ(figure.panels[1].lines[0].y[0], std::exp(0.5F));
  EXPECT_EQ(figure.panels[1].bands.size(), 1U);
}

TEST_F(PerplexityReports, OfTheFullCacheAloneAreDrawnToo) {
  Settings settings = made_settings();
  settings.policies.clear();
  const auto grid = grid_of(settings);
  const auto results = made_results(3, grid, [](std::size_t, const GridPoint&) {
    return Scores{{"nll_nats", 2}, {"nll_nats 2-4", 1}, {"nll_nats 5-7", 3}};
  });
  const auto cells = perplexity_report(ScoreTable(results, grid), set_, 1);
  const figures::Figure figure = perplexity_figure(cells, grid, set_, "made");
  ASSERT_EQ(figure.panels.size(), 2U);
  EXPECT_EQ(figure.panels[1].title, "B = 8");
}

const std::string kText = std::string(kDemoModel) + "/prompts/needle_2048.txt";

PerplexityOptions golden_options() {
  PerplexityOptions options;
  options.texts = {kText};
  options.length = read_goldens("perplexity_goldens.json", "length").get<std::int64_t>();
  options.bins = read_goldens("perplexity_goldens.json", "bins").get<std::int64_t>();
  return options;
}

Settings settings_of(const std::vector<std::string>& policies, std::int64_t block) {
  Settings settings;
  settings.policies = parse_policies(policies);
  settings.budgets = parse_budgets({"32"});
  settings.blocks = {block};
  return settings;
}

// One forward pass over each window, by Transformers in float64.
TEST(Perplexity, OfTheFullCacheEqualsAPlainForward) {
  const PerplexitySet set = read_texts(golden_options(), *demo_model());
  EXPECT_EQ(set.n_scored, read_goldens("perplexity_goldens.json", "n_scored").get<std::int64_t>());
  EXPECT_EQ(set.n_bytes, read_goldens("perplexity_goldens.json", "n_bytes").get<std::int64_t>());
  EXPECT_EQ(set.n_left_out, read_goldens("perplexity_goldens.json", "n_left_out").get<std::int64_t>());
  const Settings settings = settings_of({}, 48);
  const auto evaluation = evaluate_demo(settings, set.examples, perplexity_scorer(set));
  const nlohmann::json goldens = read_goldens("perplexity_goldens.json", "windows");
  ASSERT_EQ(evaluation.results.size(), goldens.size());
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const ExampleResult& result = evaluation.results[i];
    EXPECT_NEAR(result.score("nll_nats"), goldens[i]["nll_nats"].get<double>(), 1e-5);
    ASSERT_EQ(goldens[i]["bins"].size(), 5U);
    for (std::int64_t bin = 0; bin < 5; ++bin)
      EXPECT_NEAR(result.score(bin_score(set, bin)), goldens[i]["bins"][bin].get<double>(), 1e-5);
  }
}

// The budget holds from the end of the first block on: its tokens cost what they cost under the full cache.
TEST(Perplexity, UnderAPolicyPartsFromTheFullCacheBehindTheBudget) {
  PerplexityOptions options = golden_options();
  options.windows = 2;
  options.bins = options.length - 1;
  const PerplexitySet set = read_texts(options, *demo_model());
  const auto evaluation = evaluate_demo(settings_of({"sink"}, 16), set.examples, perplexity_scorer(set));
  ASSERT_EQ(evaluation.results.size(), 4U);
  for (std::size_t window = 0; window < 2; ++window) {
    const ExampleResult &full = evaluation.results[2 * window], &sink = evaluation.results[2 * window + 1];
    int n_apart = 0;
    for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin) {
      const double more = sink.score(bin_score(set, bin)) - full.score(bin_score(set, bin));
      // The token at position 48 is the last that blocks of 16 score before anything beyond 32 rows is
      // evicted.
      if (bin + 1 <= 48)
        EXPECT_NEAR(more, 0, 1e-5) << bin;
      else
        n_apart += std::abs(more) > 1e-3 ? 1 : 0;
    }
    EXPECT_GT(n_apart, 100);
  }
}

TEST(Perplexity, OfAStrideScoresTheEndsOfWindows) {
  PerplexityOptions options = golden_options();
  options.stride = 64;
  options.bins = 64;
  options.windows = 3;
  const PerplexitySet set = read_texts(options, *demo_model());
  EXPECT_EQ(set.first_scored, 192);
  EXPECT_EQ(set.n_scored, 192);
  EXPECT_EQ(set.examples[2].score_from, 192);
  EXPECT_EQ(bin_score(set, 63), "nll_nats 255-255");
  options.stride.reset();
  options.bins = 255;
  options.windows = 1;
  const PerplexitySet whole = read_texts(options, *demo_model());
  const auto ends = evaluate_demo(settings_of({}, 64), set.examples, perplexity_scorer(set));
  const auto all = evaluate_demo(settings_of({}, 64), whole.examples, perplexity_scorer(whole));
  EXPECT_NEAR(ends.results[0].score("nll_nats 192-192"), all.results[0].score("nll_nats 192-192"), 1e-5);
}

TEST(Perplexity, RefusesWhatCannotBeRead) {
  const test::ScratchFolder folder;
  PerplexityOptions options = golden_options();
  for (const std::int64_t length : {std::int64_t{1}, demo_model()->config().context_length + 1}) {
    options.length = length;
    EXPECT_THROW(read_texts(options, *demo_model()), UsageError);
  }
  options = golden_options();
  options.stride = 256;
  EXPECT_THROW(read_texts(options, *demo_model()), UsageError);
  options = golden_options();
  options.bins = 0;
  EXPECT_THROW(read_texts(options, *demo_model()), UsageError);
  std::ofstream(folder.file("short.txt")) << "Short.";
  std::ofstream(folder.file("bytes.txt")) << std::string(2000, '\xFF');
  for (const auto& path : {folder.file("short.txt"), folder.file("bytes.txt"), folder.file("absent.txt")}) {
    options = golden_options();
    options.texts = {path};
    EXPECT_THROW(read_texts(options, *demo_model()), FileError) << path;
  }
}

TEST(PositionBins, HoldEveryPositionOnce) {
  for (std::int64_t n = 1; n < 40; ++n)
    for (std::int64_t n_bins = 1; n_bins <= n; ++n_bins) {
      const PositionBins bins{n, n_bins};
      EXPECT_EQ(bins.begin(0), 0);
      EXPECT_EQ(bins.begin(n_bins), n);
      for (std::int64_t bin = 0; bin < n_bins; ++bin) {
        EXPECT_GE(bins.size(bin), n / n_bins);
        EXPECT_LE(bins.size(bin), n / n_bins + 1);
      }
    }
}

TEST(PositionBins, MeansAreThoseOfThePositions) {
  const std::vector<double> values{1, 2, 4, 8, 16};
  EXPECT_THAT(bin_means(values, {5, 2}), ::testing::ElementsAre(1.5, 28 / 3.0));
  for (std::int64_t n_bins = 1; n_bins <= 5; ++n_bins)
    EXPECT_NEAR(mean_of_bins(bin_means(values, {5, n_bins}), {5, n_bins}), 31 / 5.0, 1e-14);
}

TEST(PositionBins, RefuseWhatDoesNotFit) {
  const std::vector<double> values{1, 2};
  EXPECT_THROW(bin_means(values, {2, 3}), InvalidInput);
  EXPECT_THROW(bin_means(values, {3, 1}), InvalidInput);
  EXPECT_THROW(bin_means(values, {2, 0}), InvalidInput);
}

std::vector<std::int32_t> counted(int n) {
  std::vector<std::int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(TextWindows, BeginWithTheSpecialToken) {
  const auto windows = text_windows(counted(7), {4, 3, 99});
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_THAT(windows[0].ids, ElementsAre(99, 0, 1, 2));
  EXPECT_THAT(windows[1].ids, ElementsAre(99, 3, 4, 5));
  EXPECT_EQ(windows[1].first, 3);
  EXPECT_EQ(windows[1].first_scored, 1);
}

TEST(TextWindows, ScoreTheirLastStride) {
  const auto windows = text_windows(counted(8), {6, 2, std::nullopt});
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_THAT(windows[1].ids, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_EQ(windows[1].first_scored, 4);
}

TEST(TextWindows, ScoreNoTokenTwice) {
  for (const bool bos : {false, true})
    for (std::int64_t length = 2; length < 9; ++length)
      for (std::int64_t stride = 1; stride < length; ++stride) {
        const WindowRule rule{length, stride, bos ? std::optional<std::int32_t>(99) : std::nullopt};
        std::map<std::int32_t, int> scored;
        const auto windows = text_windows(counted(30), rule);
        for (const TextWindow& window : windows) {
          ASSERT_EQ(std::ssize(window.ids), length);
          for (auto at = window.first_scored; at < length; ++at) ++scored[window.ids[at]];
        }
        EXPECT_EQ(std::ssize(scored), std::ssize(windows) * stride);
        for (const auto& [id, n] : scored) EXPECT_EQ(n, 1) << id;
        // One after another, without a gap.
        EXPECT_EQ(scored.rbegin()->first - scored.begin()->first + 1, std::ssize(scored));
        // What is left is less than one more window would score.
        EXPECT_LT(30 - 1 - scored.rbegin()->first, stride);
      }
}

TEST(TextWindows, OfAShortTextAreNone) {
  EXPECT_TRUE(text_windows(counted(3), {4, 3, std::nullopt}).empty());
  EXPECT_EQ(text_windows(counted(3), {4, 3, 99}).size(), 1U);
  EXPECT_TRUE(text_windows({}, {2, 1, std::nullopt}).empty());
}

TEST(TextWindows, RefuseRulesThatCannotBe) {
  EXPECT_THROW(text_windows(counted(9), {1, 1, std::nullopt}), InvalidInput);
  EXPECT_THROW(text_windows(counted(9), {4, 0, std::nullopt}), InvalidInput);
  EXPECT_THROW(text_windows(counted(9), {4, 4, std::nullopt}), InvalidInput);
}

}  // namespace

}  // namespace keyscope::evaluation

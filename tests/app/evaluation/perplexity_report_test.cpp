#include "app/evaluation/perplexity_report.hpp"

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/evaluation/perplexity_figure.hpp"
#include "tests/app/evaluation/made_results.hpp"

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
  const auto json = perplexity_json(cells_, grid_, set_);
  EXPECT_EQ(json["tokens_scored"], 18);
  const auto& cell = json["cells"][1];
  EXPECT_EQ(cell["n"], 3);
  EXPECT_EQ(cell["curve"].size(), 2U);
  EXPECT_EQ(cell["curve"][1]["first"], 5);
  EXPECT_EQ(cell["curve"][1]["last"], 7);
  EXPECT_DOUBLE_EQ(cell["curve"][1]["ratio"].get<double>(), std::exp(0.5));
  EXPECT_FALSE(json["cells"][0].contains("ratio"));
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

}  // namespace
}  // namespace keyscope::evaluation

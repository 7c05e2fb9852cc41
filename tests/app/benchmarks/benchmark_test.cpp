#include "app/benchmarks/benchmark.hpp"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/figure.hpp"
#include "base/errors.hpp"

namespace keyscope::benchmarks {

namespace {

using ::testing::ElementsAre;

Row make_row(const std::string& policy, std::optional<std::int64_t> budget, std::int64_t block,
             double ttft_ms) {
  Row row;
  row.policy = policy;
  row.budget = budget;
  row.block = block;
  row.schedule = "block";
  row.n_tokens = 64;
  row.ttft_ms = Spread{ttft_ms, ttft_ms - 1, ttft_ms + 1};
  return row;
}

// Two blocks, three budgets.
Benchmark make_benchmark() {
  Benchmark benchmark;
  benchmark.name = "prefill";
  for (const std::int64_t block : {6, 64}) {
    benchmark.rows.push_back(make_row("none", std::nullopt, block, 100));
    for (const std::int64_t budget : {8, 16, 32})
      benchmark.rows.push_back(make_row("keydiff", budget, block, static_cast<double>(budget + block)));
  }
  return benchmark;
}

TEST(BenchmarkFigure, GoesAlongWhatWasVariedMostWithAPanelForTheRest) {
  const figures::Figure figure = benchmark_figure(make_benchmark());
  ASSERT_EQ(figure.panels.size(), 2u);
  EXPECT_EQ(figure.panels[0].title, "B = 6");
  EXPECT_EQ(figure.panels[1].title, "B = 64");
  EXPECT_EQ(figure.panels[0].x.label, "budget N");
  ASSERT_EQ(figure.panels[1].lines.size(), 2u);
  EXPECT_THAT(figure.panels[1].lines[1].x, ElementsAre(8, 16, 32));
  EXPECT_THAT(figure.panels[1].lines[1].y, ElementsAre(72, 80, 96));
}

TEST(BenchmarkFigure, NoneIsLevelOverAllBudgets) {
  const figures::Figure figure = benchmark_figure(make_benchmark());
  for (const figures::Panel& panel : figure.panels) {
    EXPECT_EQ(panel.lines[0].id, "none");
    EXPECT_THAT(panel.lines[0].x, ElementsAre(8, 16, 32));
    EXPECT_THAT(panel.lines[0].y, ElementsAre(100, 100, 100));
  }
}

TEST(BenchmarkFigure, PoliciesDifferInMarkerAndKeepItInFiles) {
  const figures::Figure figure = benchmark_figure(make_benchmark());
  const nlohmann::json json = figures::figure_to_json(figure);
  const figures::Figure again = figures::figure_from_json({json, "benchmark", ""});
  const auto& lines = again.panels[0].lines;
  ASSERT_TRUE(lines[0].marker && lines[1].marker);
  EXPECT_NE(lines[0].marker, lines[1].marker);
  EXPECT_EQ(lines[0].marker, figure.panels[0].lines[0].marker);
}

TEST(BenchmarkFigure, WhatWasNotMeasuredIsNullInJson) {
  const auto json = benchmark_json(make_benchmark());
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["rows"][1]["ttft_ms"], 14);
  EXPECT_EQ(json["rows"][1]["ttft_ms_min"], 13);
  EXPECT_EQ(json["rows"][1]["ttft_ms_max"], 15);
  EXPECT_TRUE(json["rows"][0]["budget"].is_null());
  EXPECT_TRUE(json["rows"][1]["peak_bytes"].is_null());
}

// An overhead is a ratio less one, and so are its ends; what was not compared is null.
TEST(BenchmarkFigure, RatiosStandWithTheirIntervalsInJson) {
  Benchmark benchmark = make_benchmark();
  benchmark.rows[0].recording_ratio = PairedRatio{1.3, 1.25, 1.375, 7};
  benchmark.rows[1].ttft_ratio = PairedRatio{1.3, 1.2, 1.4, 7, "because"};
  benchmark.rows[1].ttft_rounds.times = {13, 14, 15};
  const auto json = benchmark_json(benchmark);
  EXPECT_DOUBLE_EQ(json["rows"][0]["overhead_low"], 0.25);
  EXPECT_DOUBLE_EQ(json["rows"][0]["overhead_high"], 0.375);
  EXPECT_EQ(json["rows"][0]["overhead_told"], true);
  EXPECT_TRUE(json["rows"][0]["overhead_doubt"].is_null());
  EXPECT_TRUE(json["rows"][0]["ttft_relative_told"].is_null());
  EXPECT_EQ(json["rows"][1]["ttft_relative_told"], false);
  EXPECT_EQ(json["rows"][1]["ttft_relative_doubt"], "because");
  EXPECT_EQ(json["rows"][1]["ttft_ms_rounds"].size(), 3u);
  EXPECT_EQ(json["ratios"]["least_rounds"], kLeastRounds);
}

// Bars as long as their intervals, in per cent; what cannot be told is not drawn, and the caption says why.
TEST(BenchmarkFigure, RatiosThatCannotBeToldAreNotDrawn) {
  Benchmark benchmark;
  benchmark.name = "capture";
  for (const std::int64_t budget : {8, 16, 32}) {
    Row row = make_row("keydiff", budget, 64, 100);
    row.overhead = Spread{0.3, 0.2, 0.4};
    row.recording_ratio = PairedRatio{1.25, 1.125, 1.5, 7, budget == 16 ? "because" : ""};
    benchmark.rows.push_back(row);
  }
  const figures::Figure figure = benchmark_figure(benchmark);
  ASSERT_EQ(figure.panels.size(), 1u);
  const auto& lines = figure.panels[0].lines;
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0].x, ElementsAre(8, 32));
  EXPECT_THAT(lines[0].y, ElementsAre(25, 25));
  EXPECT_EQ(lines[1].id, "keydiff_interval");
  EXPECT_EQ(lines[1].colour, lines[0].colour);
  ASSERT_EQ(lines[1].y.size(), 6u);
  EXPECT_EQ(lines[1].y[0], 12.5F);
  EXPECT_EQ(lines[1].y[1], 50);
  EXPECT_TRUE(std::isnan(lines[1].y[2])) << "bars are not joined";
  EXPECT_TRUE(figure.caption.ends_with("1 of 3 cannot be told and are not drawn: because")) << figure.caption;
}

TEST(Spread, OfNothingIsNothing) { EXPECT_FALSE(spread_of({}).has_value()); }

TEST(Spread, MedianOfAnOddNumberIsTheMiddle) {
  const auto spread = spread_of({5, 1, 9});
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->median, 5);
  EXPECT_EQ(spread->least, 1);
  EXPECT_EQ(spread->most, 9);
}

TEST(Spread, MedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(spread_of({4, 1, 100, 2}).value().median, 3);
}

using capture::Schedule;

Sweep make_sweep() {
  Sweep sweep;
  sweep.policies = {"none", "keydiff:recent=0.1"};
  sweep.budgets = {8, 16};
  sweep.blocks = {4, 2};
  sweep.n_tokens = {32};
  sweep.schedules = {Schedule::kBlock, Schedule::kLayer};
  return sweep;
}

TEST(Sweep, RunsEveryCombinationAndNoneOnceForAllBudgets) {
  const auto cases = cases_of(make_sweep());
  EXPECT_EQ(cases.size(), 2u * 2u * 3u);
  EXPECT_EQ(std::ranges::count(cases, 0, &Case::budget), 4);
  EXPECT_EQ(row_of(cases[0]).budget, std::nullopt);
  EXPECT_EQ(row_of(cases[1]).policy, "keydiff:recent=0.1");
  EXPECT_EQ(row_of(cases[1]).budget, 8);
  EXPECT_EQ(row_of(cases[1]).schedule, "block");
}

TEST(Sweep, ACaseReadsThePromptsFirstTokens) {
  Sweep sweep = make_sweep();
  Case first = cases_of(sweep)[1];
  first.n_tokens = 3;
  EXPECT_EQ(capture_options(first, {7, 8, 9, 10}, sweep).prompt_ids, (std::vector<std::int32_t>{7, 8, 9}));
  first.n_tokens = 5;
  EXPECT_THROW(capture_options(first, {7, 8, 9, 10}, sweep), UsageError);
}

TEST(Sweep, RandomPromptsLieInTheVocabularyAndAreOnesBeginning) {
  const auto longer = random_prompt(500, 40, 3), shorter = random_prompt(20, 40, 3);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  EXPECT_EQ(*std::ranges::min_element(longer), 0);
  EXPECT_EQ(*std::ranges::max_element(longer), 39);
  EXPECT_NE(random_prompt(20, 40, 4), shorter);
}

TEST(Scoring, CountsKeydiffsOperationsAsThePaperDoes) {
  EXPECT_EQ(keydiff_flops(1, 1), 12 + 97 + 3 + 94);
  EXPECT_EQ(keydiff_flops(512, 128), (12 * 128 + 97) * 512 + 3 * 128 + 94);
}

}  // namespace

}  // namespace keyscope::benchmarks

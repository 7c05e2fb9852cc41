#include "app/benchmarks/benchmark_figure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/figure_json.hpp"

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
  const figures::Figure again = figures::figure_from_json(figures::figure_to_json(figure));
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

}  // namespace
}  // namespace keyscope::benchmarks

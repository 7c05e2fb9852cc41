#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/longbench_rows.hpp"
#include "app/evaluation/paired_scores.hpp"

namespace keyscope::evaluation {

// Points of 100 that a policy has, and how many more than the full cache with the same block.
struct LongBenchPoints {
  ScoreMean score, difference;
  std::int64_t n = 0;  // rows
};

// One task under one grid point, also by the lengths of LongBench-E.
struct LongBenchCell {
  const LongBenchTask* task = nullptr;
  std::size_t point = 0;
  std::int64_t budget_rows = 0;  // N, mean over the rows
  LongBenchPoints points;
  std::vector<std::pair<std::string, LongBenchPoints>> by_length;  // bins that have rows
};

// All tasks under one grid point: the mean over tasks, each weighing the same, and over those of each
// category.
struct LongBenchTotal {
  std::size_t point = 0;
  std::int64_t budget_rows = 0;
  LongBenchPoints points;
  std::vector<std::pair<std::string, LongBenchPoints>> categories;
};

struct LongBenchReport {
  std::vector<LongBenchCell> cells;    // task by task in the benchmark's order, each over the grid
  std::vector<LongBenchTotal> totals;  // over the grid
};

//   rows: of the examples, in their order
LongBenchReport longbench_report(const ScoreTable& table, std::span<const LongBenchRow> rows,
                                 std::uint64_t seed);

// "cells" and "totals"; scores in percent as LongBench rounds them, intervals not rounded.
nlohmann::ordered_json longbench_json(const LongBenchReport& report, std::span<const GridPoint> grid);

// A line per grid point, a column per task, the mean and the difference to the full cache.
std::string longbench_table(const LongBenchReport& report, std::span<const GridPoint> grid);

}  // namespace keyscope::evaluation

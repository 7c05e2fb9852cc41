#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/longbench.hpp"
#include "app/evaluation/task_report.hpp"

namespace keyscope::evaluation {

// One task under one grid point, also by the lengths of LongBench-E.
struct LongBenchCell {
  const LongBenchTask* task = nullptr;
  std::size_t point = 0;
  std::int64_t budget_rows = 0;  // N, mean over the rows
  ScorePoints points;
  std::vector<std::pair<std::string, ScorePoints>> by_length;  // bins that have rows
};

// All tasks under one grid point: the mean over tasks, each weighing the same, and over those of each
// category.
struct LongBenchTotal {
  std::size_t point = 0;
  std::int64_t budget_rows = 0;
  ScorePoints points;
  std::vector<std::pair<std::string, ScorePoints>> categories;
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

// The score of one prediction, a share of 1: the best over the right answers by the task's metric, as
// LongBench's eval.py has it.
//   classes: of a task that is scored by them
//   throws what the metric throws
double longbench_score(const LongBenchTask& task, std::string_view prediction,
                       std::span<const std::string> answers, std::span<const std::string> classes);

// A task's points of 100 over its examples' scores, by the steps of LongBench's eval.py, whose order decides
// which way a tie of the third decimal is rounded: 100 · sum / n.
//   scores: at least one
double task_points(std::span<const double> scores);

// Where LongBench-E counts a prompt of so many words: "0-4k", "4-8k" or "8k+".
std::string_view length_bin(std::int64_t n_words);

}  // namespace keyscope::evaluation

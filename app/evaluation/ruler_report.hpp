#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/ruler.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::evaluation {

// One task at one length under one grid point.
struct RulerCell {
  const RulerTask* task = nullptr;
  std::int64_t length = 0;
  std::size_t point = 0;
  std::int64_t budget_rows = 0;  // N, mean over the prompts
  ScorePoints points;
};

// The mean over tasks, each weighing the same, under one grid point.
struct RulerTotal {
  std::optional<std::int64_t> length;  // none: over all tasks and lengths
  std::size_t point = 0;
  std::int64_t budget_rows = 0;
  ScorePoints points;
};

struct RulerReport {
  std::vector<RulerCell> cells;    // task by task in the benchmark's order, by length, each over the grid
  std::vector<RulerTotal> totals;  // over all lengths over the grid, then by length likewise

  std::vector<const RulerTask*> tasks() const;
  std::vector<std::int64_t> lengths() const;
  // null where the task was not asked at the length
  const RulerCell* cell(const RulerTask& task, std::int64_t length, std::size_t point) const;
  const RulerTotal& total(std::optional<std::int64_t> length, std::size_t point) const;
};

//   examples: of RulerSet
RulerReport ruler_report(const ScoreTable& table, std::span<const Example> examples, std::uint64_t seed);

// "cells" and "totals", these with "length" null where they are over all; scores in percent as RULER rounds
// them.
nlohmann::ordered_json ruler_json(const RulerReport& report, std::span<const GridPoint> grid);

// A line per grid point and length, a column per task, the mean and the difference to the full cache.
std::string ruler_table(const RulerReport& report, std::span<const GridPoint> grid);

// "ruler": the mean over tasks against the length, a curve for every policy, budget and block. "ruler-tasks":
// scores by task and length, a heatmap for each of them; of one length one heatmap with all of them side by
// side. "ruler-difference": the same less the full cache's, left out where there is nothing else.
//   caption: what stands under each
std::vector<figures::Figure> ruler_figures(const RulerReport& report, const std::vector<GridPoint>& grid,
                                           const std::string& caption);

}  // namespace keyscope::evaluation

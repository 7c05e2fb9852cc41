#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/math_rows.hpp"
#include "app/evaluation/paired_scores.hpp"

namespace keyscope::evaluation {

// Shares of problems that are solved, the mean over a problem's samples counting for it, and how many more
// than under the full cache with the same block. Intervals are over problems.
struct MathShares {
  ScoreMean exact, flexible;
  ScoreMean exact_difference, flexible_difference;
  std::int64_t n = 0;  // problems
};

// Everything under one grid point.
struct MathCell {
  std::size_t point = 0;
  std::int64_t budget_rows = 0;  // N, mean over the problems
  MathShares all;
  double generated = 0;  // tokens, mean over all samples
  // Problems of which, under the full cache with the same block, prompt and answer together (mean over the
  // samples) are longer than N: those where something had to be evicted, as in the paper's tables 5 and 7.
  // Without problems for the full cache.
  MathShares over_budget;
  std::vector<std::pair<std::string, MathShares>> by_level;    // "1" to "5"
  std::vector<std::pair<std::string, MathShares>> by_subject;  // in order of name
};

//   rows: n_samples examples each, one after another
std::vector<MathCell> math_report(const ScoreTable& table, std::span<const MathRow> rows,
                                  std::size_t n_samples, std::uint64_t seed);

// "cells", over the grid.
nlohmann::ordered_json math_json(std::span<const MathCell> cells, std::span<const GridPoint> grid);

// A line per grid point.
std::string math_table(std::span<const MathCell> cells, std::span<const GridPoint> grid);

}  // namespace keyscope::evaluation

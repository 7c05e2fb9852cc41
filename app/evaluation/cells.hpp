#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/evaluation/example_result.hpp"

namespace keyscope::evaluation {

// A mean of one score over examples, at 95 %.
struct ScoreMean {
  double mean = 0;
  double low = 0, high = 0;  // NaN where the examples say nothing of it
};

// How a score's interval is made.
enum class Interval {
  kWilson,     // of scores that are 0 or 1: analysis/wilson
  kBootstrap,  // of any others: analysis/bootstrap over examples, 10,000 resamples; none for fewer than two
};

// Results that are looked at together.
struct Cell {
  GridPoint point;
  std::vector<const ExampleResult*> results;

  // N of its results, mean, half up: of a budget that is a share it depends on the prompts.
  std::int64_t budget_rows() const;
  //   throws InvalidInput where a result has no such score, or Wilson's interval is asked of one that is
  //   neither 0 nor 1
  ScoreMean score(std::string_view name, Interval interval, std::uint64_t seed) const;
};

// The results of every grid point, in the grid's order: of those examples that are wanted, all unless told.
//   results: as Evaluation has them; example: its index among the examples
std::vector<Cell> cells_of(std::span<const ExampleResult> results, std::span<const GridPoint> grid,
                           const std::function<bool(std::size_t example)>& wanted = nullptr);

// {"recall": 0.5, "recall_interval": [0.2, 0.8]}: added to `json`; null for NaN.
void add_score(nlohmann::ordered_json& json, const std::string& name, const ScoreMean& mean);

// What every cell says of itself: policy, budget, budget_text, block, n.
nlohmann::ordered_json cell_json(const Cell& cell);

}  // namespace keyscope::evaluation

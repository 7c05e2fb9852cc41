#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/example.hpp"
#include "app/figures/figure.hpp"

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

// The results of every grid point, in the grid's order: of those examples that are wanted, by default all.
//   results: as Evaluation has them; example: its index among the examples
std::vector<Cell> cells_of(std::span<const ExampleResult> results, std::span<const GridPoint> grid,
                           const std::function<bool(std::size_t example)>& wanted = nullptr);

// {"recall": 0.5, "recall_interval": [0.2, 0.8]}: added to `json`; null for NaN.
void add_score(nlohmann::ordered_json& json, const std::string& name, const ScoreMean& mean);

// "0.913 (0.900 to 0.926)"; the mean alone where it has no interval.
std::string with_interval(const ScoreMean& mean, int decimals = 3);

// What every cell says of itself: policy, budget, budget_text, block, n.
nlohmann::ordered_json cell_json(const Cell& cell);

// A score that a task reports, and how its interval is made.
struct ReportedScore {
  std::string name;
  Interval interval;
};

// What is reported of a whole evaluation, whatever its task.
struct TaskReport {
  const Settings& settings;
  const Evaluation& evaluation;
  std::vector<ReportedScore> scores;
  std::string axis;                            // what examples are grouped by in the table: "length"
  std::vector<nlohmann::ordered_json> groups;  // its values in order, as in `about`
  std::span<const Example> examples;
  const std::vector<std::string>& bad_rows;  // that were skipped, and why
};

// The results of examples of which `about` says so.
std::vector<Cell> cells_where(const TaskReport& report, const nlohmann::ordered_json& about);

// {"settings", "intervals", "cells" (by the keys of `by`, each with every value that occurs), "totals",
// "bad_rows", "skipped_rows"}.
nlohmann::ordered_json report_json(const TaskReport& report, const std::vector<nlohmann::ordered_json>& by);

// A table policy × budget × block: every score over all examples with its interval, the first one by group.
std::string report_table(const TaskReport& report);

// How grid points are called where nothing else is said of them: "keydiff N=25% B=64"; only what differs.
std::vector<std::string> point_labels(const std::vector<GridPoint>& grid);

// Under a figure: model, examples, what intervals there are.
std::string report_caption(const Settings& settings, std::size_t n_examples);

// A score under one grid point, example by example, and beside the full cache.
// An evaluation's results as a table of examples and grid points.
class ScoreTable {
 public:
  //   results: as Evaluation has them
  ScoreTable(std::span<const ExampleResult> results, std::span<const GridPoint> grid)
      : results_(results), grid_(grid) {}

  std::span<const GridPoint> grid() const { return grid_; }
  std::size_t n_examples() const { return results_.size() / grid_.size(); }
  const ExampleResult& result(std::size_t example, std::size_t point) const {
    return results_[example * grid_.size() + point];
  }

  // The score of each example asked for, in their order.
  //   throws InvalidInput where a result has no such score
  std::vector<double> scores(std::string_view name, std::size_t point,
                             std::span<const std::size_t> examples) const;
  // What each has more than under the full cache of the same block.
  std::vector<double> differences(std::string_view name, std::size_t point,
                                  std::span<const std::size_t> examples) const;

  // The grid point of the full cache with this one's block.
  std::size_t reference(std::size_t point) const;
  // N of these examples as Cell::budget_rows has it.
  std::int64_t mean_budget(std::size_t point, std::span<const std::size_t> examples) const;

 private:
  std::span<const ExampleResult> results_;
  std::span<const GridPoint> grid_;
};

// Means of every n_each values: of a problem's samples, say.
//   values: a multiple of n_each
std::vector<double> means_of_each(std::span<const double> values, std::size_t n_each);

// The mean of values with its bootstrap interval, see Interval::kBootstrap; of several groups, that of their
// means, each resampled by itself.
ScoreMean bootstrap_score(std::span<const double> values, std::uint64_t seed);
ScoreMean bootstrap_score(std::span<const std::vector<double>> groups, std::uint64_t seed);

// Points of 100 that a policy has by "score", and how many more than the full cache with the same block.
struct ScorePoints {
  ScoreMean score, difference;
  std::int64_t n = 0;  // examples
};

// The mean over groups of examples, which weigh the same.
ScorePoints score_points(const ScoreTable& table, std::size_t point,
                         std::span<const std::vector<std::size_t>> groups, std::uint64_t seed);

// {"n", "score", "score_interval"}, and "difference" with its interval of a policy that evicts; the score in
// two decimals, as benchmarks publish it, the others not rounded.
nlohmann::ordered_json points_json(const ScorePoints& points, bool evicts);

// Points of 100 as LongBench's and RULER's tables have them: two decimals, rounded as Python's `round` does.
double two_decimals(double points);

// What a report says of a grid point: policy, budget (rows), budget_text, block.
nlohmann::ordered_json point_json(const GridPoint& point, std::int64_t budget_rows);

// How these intervals are described where they are reported.
std::string_view bootstrap_words();

// What a benchmark's report says around its own numbers: {"format", "task", "settings", "interval", those of
// `numbers`, "bad_rows", "skipped_rows"}.
//   numbers: an object
//   bad_rows: that were skipped, and why
nlohmann::ordered_json benchmark_json(const Settings& settings, const nlohmann::ordered_json& numbers,
                                      const std::vector<std::string>& bad_rows);

// What this call took, which another that gives the same results would not: {"tokens_asked", "tokens_run",
// "tokens_shared", "seconds", "results_run", "results_earlier"}.
nlohmann::ordered_json cost_json(const Evaluation& evaluation);

// {"bad_rows", "skipped_rows"}: how many rows were skipped, and of each where it stands and what was wrong.
void add_bad_rows(nlohmann::ordered_json& json, const std::vector<std::string>& bad_rows);

}  // namespace keyscope::evaluation

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/sign_flips.hpp"
#include "analysis/statistics.hpp"
#include "app/adoption/tasks.hpp"
#include "app/evaluation/example.hpp"
#include "app/grid/grid_plan.hpp"

namespace keyscope::grid {

// Where methods are compared with each other: one budget and one block size.
struct GridSetting {
  std::string budget_text;
  std::int64_t block = 0;
  std::string label;  // what tells it from the others: "25%", "25%, B = 64"
};

// What one method scored under one setting.
struct MethodScores {
  std::vector<double> points;  // of each example: 100 times its score
  double rows_kept = 0;        // mean over examples
  std::int64_t budget = 0;     // N, mean over examples, half up
};

struct TaskScores {
  std::string task, metric;
  std::int64_t n_examples = 0;
  // Examples by data set, which all weigh the same; most tasks have one.
  std::vector<std::vector<std::size_t>> data_sets;
  std::vector<std::vector<MethodScores>> methods;  // [setting][method]
  std::vector<std::vector<double>> full;           // [setting][example]: points under the full cache
};

// All that a grid measured.
struct GridScores {
  GridPlan plan;
  std::vector<GridSetting> settings;
  std::vector<TaskScores> tasks;
  std::uint64_t seed = 0;  // of resampling
};

std::vector<GridSetting> grid_settings(const evaluation::Settings& settings);

//   settings: whose policies are the plan's methods, in their order
//   results: as Evaluation has them
TaskScores task_scores(const adoption::Task& task, std::span<const evaluation::ExampleResult> results,
                       const evaluation::Settings& settings);

// Mean points of a task over examples, with an interval at 95 % (percentile bootstrap, data sets apart).
//   points: by example
analysis::BootstrapMean mean_points(const TaskScores& task, std::span<const double> points,
                                    std::uint64_t seed);

// What one value of a slot has more than the base's, in points, paired example by example.
struct GridDifference {
  std::size_t task = 0, setting = 0;
  Slot slot = Slot::kScorer;
  std::size_t value = 0;  // of the slot, never the base's
  // Over how many pairs of methods that differ in this slot alone it is a mean: 1 where all other slots are
  // at the base, else all pairs that the grid has.
  std::size_t n_pairs = 1;
  analysis::BootstrapMean points;
  analysis::SignFlipTest test;  // among all differences of the grid
};

// For every task, setting, slot and value but the base's: with the other slots at the base, and where slots
// are crossed also over all of their values.
std::vector<GridDifference> grid_differences(const GridScores& scores);

// How much of a lead is score, and how much protection. The lead of a scorer s with a protection p is what it
// has more than the reference scorer r without any, Y(s, p) - Y(r, 0). It can be had in two steps, in either
// order:
//   score first:      Y(s, 0) - Y(r, 0), then Y(s, p) - Y(s, 0);
//   protection first: Y(r, p) - Y(r, 0), then Y(s, p) - Y(r, p).
// The part of each is its mean over both orders (Shapley's value of two players), so that both add up to the
// lead, and none is favoured; half of the interaction, which is what the orders differ by, goes to either.
struct LeadParts {
  std::optional<std::size_t> task, setting, scorer, protection;  // none: the mean over all of them
  analysis::BootstrapMean lead;                                  // points
  analysis::BootstrapMean score;                                 // its part
  analysis::BootstrapMean protection_part;
  analysis::BootstrapMean score_alone;        // Y(s, 0) - Y(r, 0)
  analysis::BootstrapMean score_protected;    // Y(s, p) - Y(r, p)
  analysis::BootstrapMean protection_alone;   // Y(r, p) - Y(r, 0)
  analysis::BootstrapMean protection_scored;  // Y(s, p) - Y(s, 0)
  analysis::BootstrapMean interaction;        // score_protected - score_alone
  // The protection's part of the lead; NaN where the lead's interval is not above 0.
  analysis::BootstrapMean share;
};

// Means over scorers but the reference, over protections but "none", over tasks (all of one weight), settings
// and all values of other slots that are crossed: the first over everything, then by setting, by task, by
// scorer (also of each task and setting) and by protection. Empty where the grid cannot say: it lacks the
// reference, another scorer, "none" or a protection, or does not cross them.
//   source: Shapley, A Value for n-Person Games (1953)
std::vector<LeadParts> lead_parts(const GridScores& scores);

// Why it cannot: a sentence; empty where it can.
std::string no_parts_because(const GridPlan& plan);

}  // namespace keyscope::grid

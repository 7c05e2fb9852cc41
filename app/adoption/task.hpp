#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/adoption/adoption.hpp"
#include "app/evaluation/evaluation.hpp"

namespace keyscope::adoption {

// One task of a report: its examples and how they are scored.
struct Task {
  std::string name;    // "niah"; also that of its folder
  std::string metric;  // "recall", for people
  std::string score;   // the name among Scores
  TaskKind kind = TaskKind::kScore;
  std::vector<evaluation::Example> examples;
  evaluation::Scorer scorer;
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();  // what its examples depend on
  std::vector<std::string> bad_rows = {};                              // that were skipped, and why
  std::vector<std::string> data_sets = {};  // that of each example; empty: all are of one
};

// The grid points of `none` and of the candidates, as an evaluation of one block size has them: `none` first.
//   results: of all examples, each under all grid points in order
struct TaskResult {
  TaskOutcome outcome;
  std::vector<TaskLoss> losses;  // of the candidates
};
TaskResult task_result(const Task& task, std::span<const evaluation::ExampleResult> results,
                       std::size_t n_candidates, const analysis::BootstrapOptions& bootstrap);

}  // namespace keyscope::adoption

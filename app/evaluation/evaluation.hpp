#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/evaluation/example.hpp"
#include "app/evaluation/example_result.hpp"
#include "app/evaluation/result_folder.hpp"
#include "app/evaluation/settings.hpp"
#include "capture/inference/completion.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

// The other end of a running evaluation.
struct EvaluationWatch {
  capture::CaptureControl& control;  // ends it within a block
  // Called after every block: tokens of all prompts and generations that were still to be done, shared ones
  // included.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;
};

struct Evaluation {
  std::vector<ExampleResult> results;  // examples in order, each under all grid points in order
  std::int64_t n_earlier = 0;          // of them, how many an interrupted evaluation left
  capture::CompletionCost cost;        // of the others
};

// Before anything runs: ids of examples must differ, and every prompt must fit into the model's context with
// what is to be generated.
//   throws InvalidInput naming the example
void check_examples(std::span<const Example> examples, const capture::Model& model);

// What an evaluation comes to.
struct Plan {
  std::int64_t n_results = 0;     // every example under every grid point
  std::int64_t n_earlier = 0;     // of them, those that are in the folder
  std::int64_t tokens_asked = 0;  // of the others' prompts and generations, shared ones included, at most
};

//   folder: null: there are no earlier results
Plan plan_evaluation(const Settings& settings, std::span<const Example> examples, const ResultFolder* folder);

// Runs every example under every grid point whose result is not in the folder, group by group with common
// beginnings read once, and adds each to the folder as it is done. Results are what an uninterrupted
// evaluation gives, in the same order.
//   folder: after `begin`; null: results are kept in memory alone
//   throws Cancelled where it was ended, saying how many results there are; otherwise as complete_prompts
Evaluation evaluate(const capture::Model& model, const Settings& settings, std::span<const Example> examples,
                    const Scorer& scorer, ResultFolder* folder, const EvaluationWatch& watch);

}  // namespace keyscope::evaluation

#pragma once

// The way of every `eval` task from the command line to its results.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/commands/eval_options.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/figures/figure.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// What a task asks of a model.
struct EvalExamples {
  std::vector<evaluation::Example> examples;
  evaluation::Scorer scorer;
  std::vector<std::string> notes = {};     // lines that are printed above the table
  std::vector<std::string> bad_rows = {};  // that were skipped, and why
};

// What came of it.
struct EvalOutcome {
  const evaluation::Settings& settings;
  const EvalExamples& asked;
  const evaluation::Evaluation& evaluation;
};

// What the task says of that.
struct EvalReport {
  std::string table;
  nlohmann::ordered_json json;  // all that --json and results.json hold
  std::vector<figures::Figure> figures = {};
};

struct EvalTask {
  std::string name;                 // "niah"
  nlohmann::ordered_json settings;  // what its scores depend on beside the grid
  std::function<EvalExamples(const capture::Model&)> examples;
  std::function<EvalReport(const EvalOutcome&)> report;
};

// Loads the model, makes the examples, runs what is missing, prints the table and writes what was asked for:
// --json, --figure, and into OUT results.json, every figure (its name begins with the task's) as png, svg and
// pdf, and all of them as TASK.h5. Ctrl-C ends it within a block; with --dry-run nothing is run or written.
//   throws as its parts do, Cancelled after Ctrl-C; nothing runs before all outputs were found to be writable
void run_eval(const EvalOptions& options, const EvalTask& task);

}  // namespace keyscope::commands

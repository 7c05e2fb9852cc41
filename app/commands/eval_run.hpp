#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/commands/eval_steps.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// What a task puts in.
struct EvalExamples {
  std::vector<evaluation::Example> examples;
  std::vector<std::string> notes;  // lines that are printed above the table
  std::int64_t n_bad_rows = 0;     // that were skipped
};

// What one task makes of the common course.
struct EvalTask {
  std::string name;  // "niah"
  nlohmann::ordered_json settings;
  std::vector<evaluation::ReportedScore> scores;
  std::string axis;                            // as in TaskReport
  std::vector<nlohmann::ordered_json> groups;  // as in TaskReport
  std::vector<nlohmann::ordered_json> cells;   // as report_json takes them
  evaluation::Scorer scorer;
  std::function<EvalExamples(const capture::Model&)> examples;
  std::function<std::vector<figures::Figure>(const evaluation::TaskReport&)> figures;
};

// Loads the model, makes the examples, runs what is missing, prints the table and writes what was asked for:
// into OUT results.json, every figure (its name begins with the task's) as png, svg and pdf, and all of them
// as TASK.h5; --figure files; --json.
//   throws as its parts do; nothing runs before all outputs were found to be writable
void run_eval(const EvalOptions& options, const EvalTask& task);

}  // namespace keyscope::commands

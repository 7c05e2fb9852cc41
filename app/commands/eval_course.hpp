#pragma once

// The common course of evaluations that report in their own way.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/commands/eval_steps.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/paired_scores.hpp"
#include "app/figures/figure.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// What a benchmark puts in.
struct CourseExamples {
  std::vector<evaluation::Example> examples;
  evaluation::Scorer scorer;
  std::vector<std::string> notes;     // lines that are printed above the table
  std::vector<std::string> bad_rows;  // that were skipped, and why
};

// What it makes of the results.
struct CourseReport {
  std::string table;
  nlohmann::ordered_json json;  // beside the settings, the skipped rows and the cost
  std::vector<figures::Figure> figures;
};

// One benchmark.
struct Course {
  std::string name;                 // "longbench"
  nlohmann::ordered_json settings;  // what its scores depend on beside the grid
  std::function<CourseExamples(const capture::Model&)> examples;
  std::function<CourseReport(const evaluation::ScoreTable&, const evaluation::Settings&)> report;
};

// Loads the model, makes the examples, runs what is missing, prints the table and writes what was asked for:
// --json, --figure, and into OUT results.json and every figure as png, svg and pdf. Ctrl-C ends it within a
// block.
//   throws as its parts do, Cancelled after Ctrl-C; nothing runs before all outputs were found to be writable
void run_course(const EvalOptions& options, const Course& course);

}  // namespace keyscope::commands

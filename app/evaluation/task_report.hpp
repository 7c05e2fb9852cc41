#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/cells.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::evaluation {

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
// "cost", "bad_rows", "skipped_rows"}.
nlohmann::ordered_json report_json(const TaskReport& report, const std::vector<nlohmann::ordered_json>& by);

// A table policy × budget × block: every score over all examples with its interval, the first one by group.
std::string report_table(const TaskReport& report);

// How grid points are called where nothing else is said of them: "keydiff N=25% B=64"; only what differs.
std::vector<std::string> point_labels(const std::vector<GridPoint>& grid);

// Under a figure: model, examples, what intervals there are.
std::string report_caption(const TaskReport& report);

}  // namespace keyscope::evaluation

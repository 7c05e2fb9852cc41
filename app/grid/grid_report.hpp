#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/example.hpp"
#include "app/figures/figure.hpp"
#include "app/grid/grid_scores.hpp"

namespace keyscope::grid {

// What a grid found, as its tables, its file and its figures say it.
struct GridFindings {
  GridScores scores;
  std::vector<GridDifference> differences;
  std::vector<LeadParts> parts;
};

GridFindings find(GridScores scores);

// "12.5 [3.1, 21.9]": points with their interval; without one where there is none.
std::string points_text(const analysis::BootstrapMean& points);

// How much of a policy's lead is its score, and how much its protection: two sentences with their intervals,
// or why the grid cannot say.
std::string answer_text(const GridFindings& findings);

// For a terminal: scores of scorers by protection for every task and setting, what each slot changes, and the
// answer.
std::string grid_table(const GridFindings& findings);

// All that results.json holds, format 1.
//   settings: of the run, for model, budgets, blocks and seed
//   bad_rows: that were skipped, and why
nlohmann::ordered_json grid_json(const GridFindings& findings, const evaluation::Settings& settings,
                                 const std::vector<std::string>& bad_rows);

// Of every slot that varies "grid-SLOT": what each value has more than the base's, by task; and "grid-lead":
// every scorer's lead, and which parts of it are its score and its protection.
//   model_name: for the captions
std::vector<figures::Figure> grid_figures(const GridFindings& findings, const std::string& model_name);

// What any grid's figures are called.
std::vector<std::string_view> grid_figure_names();

}  // namespace keyscope::grid

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/adoption/tasks.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/grid/grid_report.hpp"
#include "app/results/out_folder.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::grid {

// What a grid runs.
struct GridRun {
  const capture::Model& model;
  // Model, budgets, blocks and seed; the policies are the plan's methods, in their order.
  const evaluation::Settings& settings;
  const GridPlan& plan;
  std::span<const adoption::Task> tasks;  // whose scores are shares of 1
};

// The plan's methods as policies of an evaluation.
//   throws UsageError as evaluation::asked_grid
evaluation::Settings asked_settings(const GridPlan& plan, const std::vector<std::string>& budgets,
                                    const std::vector<std::int64_t>& blocks, std::uint64_t seed);

// A grid's folder: OUT/settings.json tells its results from others', each task's answers are kept in
// OUT/<task>/ as `eval` writes them, and results.json, cost.json, the figures and grid.h5 are made of them.
class GridFolder {
 public:
  // Writes nothing.
  //   throws FileError as results::OutFolder does, and where results of another command are there
  GridFolder(const std::filesystem::path& out, const GridRun& run, bool discard);

  // What is still to be run of all tasks.
  evaluation::Plan plan_left() const;

  // Claims the folder; what was discarded goes first. Then runs what is missing, task by task, each with what
  // its prompts share read once under all methods.
  //   throws Cancelled where it was ended, otherwise as evaluation::evaluate
  GridScores measure(const evaluation::EvaluationWatch& watch);

  // All tasks together, after `measure`: their results, and what they took.
  const evaluation::Evaluation& evaluated() const { return all_; }

  // Writes all that is made of the results.
  //   provenance: of the figure file; model, seed and device are added to it
  void write(const GridFindings& findings, const nlohmann::ordered_json& json,
             recording::Provenance provenance) const;

 private:
  evaluation::Settings settings_of(const adoption::Task& task) const;
  void discard_earlier() const;

  const GridRun& run_;
  bool discard_;
  results::OutFolder out_;
  evaluation::Evaluation all_;
};

// Whether a grid writes a file of OUT, or all files of the folder in OUT that it lies in.
//   name: from OUT on
bool is_of_grid(const std::filesystem::path& name);

}  // namespace keyscope::grid

#pragma once

// What every evaluation does on the command line, step by step.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "app/commands/json_output.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/figures/figure.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/origin.hpp"

namespace keyscope::commands {

// What all evaluations have in common on the command line.
struct EvalOptions {
  std::string model, out;
  std::vector<std::string> policies, budgets{"25%"};
  std::vector<std::int64_t> blocks{64};
  std::vector<std::string> figures;
  std::string dtype = "auto", device = "auto";
  std::uint64_t seed = 0;
  int threads = 0;
  JsonTarget json;
  bool force = false, quiet = false;

  void add_to(CLI::App& command);
};

// Whether every output can be written.
//   throws UsageError and FileError where not
void check_outputs(const EvalOptions& options);

// The grid that was asked for.
//   task_settings: what the task's scores depend on beside it
//   throws UsageError on a grid that cannot be
evaluation::Settings asked_settings(const EvalOptions& options, const std::string& task,
                                    const nlohmann::ordered_json& task_settings);

//   throws as Model::load does, and FileError where the model has no tokenizer
std::shared_ptr<const capture::Model> load_eval_model(const EvalOptions& options);

// Runs what is missing, into OUT where it was asked for, with progress on stderr; Ctrl-C ends it within a
// block.
//   settings: of the model too; the examples' SHA-256 is added to them
//   folder: made where there is an OUT
//   throws as evaluate and ResultFolder do, Cancelled after Ctrl-C
evaluation::Evaluation run_examples(const EvalOptions& options, const capture::Model& model,
                                    evaluation::Settings& settings,
                                    std::span<const evaluation::Example> examples,
                                    const evaluation::Scorer& scorer,
                                    std::unique_ptr<evaluation::ResultFolder>& folder);

// One line: how many results there are, what they took, and how much of it was shared.
std::string cost_line(const evaluation::Evaluation& evaluation);

// Where a figure file says that its figures come from.
recording::Origin eval_origin(const evaluation::Settings& settings, const capture::Model& model);

// Draws into every --figure file; of several figures, the first gets the name that was asked for, the others
// their own behind it.
void write_asked_figures(const EvalOptions& options, const std::vector<figures::Figure>& made,
                         const recording::Origin& origin);

// Into OUT: results.json, every figure as png, svg and pdf, and all of them as TASK.h5.
void write_folder(const std::vector<figures::Figure>& made, const nlohmann::ordered_json& json,
                  const std::string& task, const evaluation::ResultFolder& folder,
                  const recording::Origin& origin);

}  // namespace keyscope::commands

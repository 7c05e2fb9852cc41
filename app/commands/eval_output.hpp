#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/commands/eval_options.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/figures/figure.hpp"
#include "capture/recording/origin.hpp"

namespace keyscope::commands {

// Whether every file that was asked for can be written, each once.
//   throws UsageError and FileError where not
void check_outputs(const EvalOptions& options, const evaluation::Settings& settings);

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

// One line: how many results there are, what they took, and how much of it was shared.
std::string cost_line(const evaluation::Evaluation& evaluation);

}  // namespace keyscope::commands

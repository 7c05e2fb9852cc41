#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "app/commands/console.hpp"
#include "app/commands/model_choice.hpp"
#include "app/evaluation/settings.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// What all evaluations have in common on the command line.
struct EvalOptions {
  ModelChoice model;
  std::string out;
  std::vector<std::string> policies, budgets{"25%"};
  std::vector<std::int64_t> blocks{128};
  std::vector<std::string> figures;
  std::uint64_t seed = 0;
  std::string json;
  bool force = false, quiet = false, dry_run = false;

  void add_to(CLI::App& command);

  JsonTarget json_target() const { return {json, force}; }

  // The grid that was asked for.
  //   task_settings: what the task's scores depend on beside it
  //   throws UsageError on a grid that cannot be
  evaluation::Settings settings(const std::string& task, const nlohmann::ordered_json& task_settings) const;

  //   throws as Model::load does, and FileError where the model has no tokenizer
  std::shared_ptr<const capture::Model> load_model() const;
};

}  // namespace keyscope::commands

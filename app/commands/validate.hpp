#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/commands/cli_fwd.hpp"
#include "app/commands/options.hpp"
#include "app/commands/study_cells.hpp"
#include "app/validation/validation.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// What `validate` was asked for.
struct ValidateArguments {
  ModelChoice model;
  std::string prompts;
  std::string out;
  std::vector<std::string> policies;
  std::string budget = "0.25";
  std::int64_t block = 128;
  std::optional<std::int64_t> max_tokens;
  std::uint64_t seed = 0;
  bool keep_recordings = false;
  bool force = false;
  bool quiet = false;
  StudyChoice study = {};
};

void add_validate_options(CLI::App& command, ValidateArguments& arguments);

// Without the model.
//   throws UsageError on a policy or a budget that cannot be
validation::Settings validation_settings(const ValidateArguments& arguments);

capture::ModelOptions validation_model_options(const ValidateArguments& arguments);

}  // namespace keyscope::commands

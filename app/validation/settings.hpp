#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "analysis/policies/policy.hpp"
#include "app/results/budget.hpp"
#include "app/results/run_identity.hpp"
#include "app/validation/prompts_file.hpp"

namespace keyscope::validation {

// All that the numbers of a validation depend on, but for the prompts.
struct Settings {
  results::ModelIdentity model;
  std::vector<analysis::PolicySpec> policies;  // `none` first, then one `keydiff`, then the others
  results::Budget budget;
  std::int64_t block_size = 128;
  std::optional<std::int64_t> max_tokens;
  std::int64_t score_last = 32;  // prompt positions whose logits and attention outputs are compared
  std::uint64_t seed = 0;        // of policies that draw, and of the bootstrap
};

// What `validate` runs unless it is told: the paper's, and the floor.
std::vector<analysis::PolicySpec> default_policies();

// `none` and `keydiff`, then the others as they were asked for; empty: the default ones.
//   throws UsageError where a policy is given twice, since it would be compared with itself
std::vector<analysis::PolicySpec> complete_policies(std::vector<analysis::PolicySpec> asked);

// Every setting with its value; options of policies in full.
nlohmann::ordered_json settings_json(const Settings& settings);

// What one prompt's numbers depend on: SHA-256 of the settings and the ids, in hex.
std::string prompt_key(const nlohmann::ordered_json& settings, std::span<const std::int32_t> ids);

// Before anything runs: every prompt must be longer than its budget, and than one block, or nothing would be
// evicted while it is read.
//   file: for the message
//   throws FileError naming file and line
void check_lengths(const Settings& settings, std::span<const Prompt> prompts, const std::string& file);

}  // namespace keyscope::validation

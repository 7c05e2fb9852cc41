#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "analysis/policies/policy.hpp"
#include "capture/model/model.hpp"

namespace keyscope::capture {

class Model;
}

namespace keyscope::results {

// Which model computed, and in what: results of another are not mixed with these.
struct ModelIdentity {
  std::string name;            // of its folder
  std::string sha256;          // of its configuration and the files' headers, in hex, as recordings have it
  std::string weights_sha256;  // the same with the weights
  std::string dtype, device;   // "float32", "cpu"
};

// Reads all weights once, which `progress` follows.
//   throws std::filesystem::filesystem_error where the model's folder has gone
ModelIdentity identity_of(const capture::Model& model, const capture::HashProgress& progress = {});

// Adds "model", "model_sha256", "weights_sha256", "dtype" and "device".
void add_identity(nlohmann::ordered_json& settings, const ModelIdentity& model);

}  // namespace keyscope::results

namespace keyscope::results {

// A policy with all that its results depend on: {"name": "sink", "options": {"first": "4"}}, options that it
// was not given with their defaults.
//   seed: of the run, for policies that draw and were given none of their own
//   throws UsageError on a name or an option that there is not
nlohmann::ordered_json policy_json(const analysis::PolicySpec& policy, std::uint64_t seed);

// N for prompts of many lengths: the same number of rows for all of them, or a share of each one's tokens.
struct Budget {
  std::int64_t rows = 0;  // 0: `share` holds
  double share = 0.25;    // of the prompt's tokens, 0 < share <= 1

  // N for a prompt of n_tokens: the share of it, half up, at least 1.
  std::int64_t rows_for(std::int64_t n_tokens) const;

  // As parse_budget reads it.
  std::string text() const;
};

// "64": rows; "0.25" or "25%": a share.
//   throws UsageError on anything else
Budget parse_budget(std::string_view text);

}  // namespace keyscope::results

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
// was not given with their defaults; of files that options name, "file_sha256" and "split_sha256".
//   seed: of the run, for policies that draw and were given none of their own
//   throws UsageError on a name or an option that there is not, FileError on a file that cannot be read
nlohmann::ordered_json policy_json(const analysis::PolicySpec& policy, std::uint64_t seed);

}  // namespace keyscope::results

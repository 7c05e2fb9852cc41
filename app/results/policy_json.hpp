#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "analysis/policies/policy.hpp"

namespace keyscope::results {

// A policy with all that its results depend on: {"name": "sink", "options": {"first": "4"}}, options that it
// was not given with their defaults.
//   seed: of the run, for policies that draw and were given none of their own
//   throws UsageError on a name or an option that there is not
nlohmann::ordered_json policy_json(const analysis::PolicySpec& policy, std::uint64_t seed);

}  // namespace keyscope::results

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// One option that a policy takes.
struct OptionDefinition {
  std::string key;
  std::string accepted;  // as its user reads it: "mean|median", "0…1"
  std::string fallback;  // value when not given; empty: the run's seed
};

// How a policy joins the registry: what it is called, what it takes, and how it is made.
struct PolicyDefinition {
  std::string name;
  std::string summary;  // one line
  std::vector<OptionDefinition> options;
  // `options` holds every option, defaults filled in. Throws UsageError on a value it refuses. Null: no
  // policy object, nothing is ever evicted.
  std::unique_ptr<Policy> (*make)(const PolicySpec& complete) = nullptr;
};

}  // namespace keyscope::analysis

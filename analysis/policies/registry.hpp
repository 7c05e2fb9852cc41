#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// What the registry knows of a policy; `./keyscope capture --help` lists these.
struct PolicyEntry {
  std::string name;
  std::string summary;                   // one line
  std::vector<std::string> option_keys;  // accepted keys, with the values they take
};

std::vector<PolicyEntry> registered_policies();

// Reads `NAME[:key=value[,key=value...]]`.
//   throws UsageError on an unknown name, an unknown or repeated key, or a value that the policy refuses;
//   the message lists what is accepted
PolicySpec parse_policy(std::string_view text);

// The policy itself, or null for `none`. `seed` serves policies that draw and were given no seed of their
// own.
//   throws UsageError as `parse_policy` does
std::unique_ptr<Policy> make_policy(const PolicySpec& spec, std::uint64_t seed);

// Every option of the policy with its value, defaults included, keys ascending: what a recording stores.
PolicySpec with_defaults(const PolicySpec& spec, std::uint64_t seed);

}  // namespace keyscope::analysis

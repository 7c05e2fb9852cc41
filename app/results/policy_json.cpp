#include "app/results/policy_json.hpp"

#include "analysis/policies/registry.hpp"

namespace keyscope::results {

nlohmann::ordered_json policy_json(const analysis::PolicySpec& policy, std::uint64_t seed) {
  return {{"name", policy.name}, {"options", analysis::with_defaults(policy, seed).options}};
}

}  // namespace keyscope::results

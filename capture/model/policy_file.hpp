#pragma once

#include <cstdint>
#include <memory>

#include "analysis/policies/policy.hpp"
#include "capture/model/config.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::capture {

// What analysis::make_policy makes, with what the policy's own file says of a model's heads: read here, once,
// where the policy has one. An entry of a layer that nothing is evicted from, since it has no keys or those
// of another, may be an empty list.
//   throws UsageError as that does; FileError naming file, entry, what was found and what is expected where
//   the file cannot be read or does not fit the model
std::unique_ptr<analysis::Policy> policy_for(const analysis::PolicySpec& spec, std::uint64_t seed,
                                             const ModelConfig& config);
// For rows of a recording. Of layers that were not recorded, too, the entry may be empty.
std::unique_ptr<analysis::Policy> policy_for(const analysis::PolicySpec& spec, std::uint64_t seed,
                                             const recording::RecordingInfo& info);

}  // namespace keyscope::capture

#pragma once

#include <cstdint>

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// The floor that every other policy must beat: each token of each KV head draws one number, uniform over [0,
// 1), and keeps it for the whole run, so that what is retained is at any time a uniform sample of all tokens
// seen.
//   seed=  defaults to the run's
PolicyDefinition random_definition();

// That number: a hash of its four arguments, so that no draw depends on any other or on the order of calls.
double uniform_draw(std::uint64_t seed, int layer, int kv_head, std::int32_t position);

}  // namespace keyscope::analysis

#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// The keys that the others span least stay.
//   score: the statistical leverage kᵀ (KᵀK)⁺ k of the row in the matrix K of all rows, 0 to 1; directions of
//   less than 1e-10 of the largest eigenvalue of KᵀK do not count
PolicyDefinition leverage_definition();

}  // namespace keyscope::analysis

#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// The keys that span the largest volume stay, chosen greedily (log-det).
//   Rows are taken one after another, each time the one that raises log det(λI + Σ k kᵀ) over the rows taken
//   so far the most; ties go to the lower row. A row's score is what it raised it by, which never grows from
//   one row to the next, so that the N largest scores are the first N rows taken.
//   ridge=r   λ = r times the mean squared coordinate of the keys
PolicyDefinition logdet_definition();

}  // namespace keyscope::analysis

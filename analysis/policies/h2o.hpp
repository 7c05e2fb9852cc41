#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// H2O, heavy-hitter oracle (arXiv 2306.14048): what has received most attention stays.
//   score: Σ over all queries so far of the weight on the row, mean over the group's query heads; survivors
//   carry their sums on
//   recent=p      the most recent round(p·N) rows stay and count within N; the original has p = 0.5
//   normalize=1   the sum is divided by the number of queries that could see the row, which takes away the
//                 old rows' advantage
PolicyDefinition h2o_definition();

}  // namespace keyscope::analysis

#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// ManifoldKV: the keys furthest from the mean key stay.
//   score: ‖k - k̄‖; what `keydiff:metric=euclidean` scores, under the name it is compared by
PolicyDefinition manifold_definition();

}  // namespace keyscope::analysis

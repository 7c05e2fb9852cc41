#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// TOVA (arXiv 2401.06104): the tokens that the block's last query attends to most stay.
//   heads=group  weights averaged over the query heads of each KV head: as the KeyDiff paper does (Appendix
//   A.1)
//         all    over all query heads, one retained set a layer: TOVA's own definition
PolicyDefinition tova_definition();

}  // namespace keyscope::analysis

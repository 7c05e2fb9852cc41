#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// SnapKV (arXiv 2404.14469): what the last queries attend to stays, with its neighbours.
//   score: Σ over the block's last w queries of the weight on the row, mean over the group's query heads,
//   averaged over the rows around it
//   window=w   of a block that is shorter, all its queries
//   kernel=k   odd: rows averaged over, in time order, beyond the ends as zeros; the divisor is always k
//   recent=r   the most recent min(r, N) rows stay and count within N
PolicyDefinition snapkv_definition();

}  // namespace keyscope::analysis

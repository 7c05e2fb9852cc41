#pragma once

#include <cstdint>
#include <span>

#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// Weights of queries [first, first + count) of one query head by the softmax over the rows that each could
// see, recomputed from recorded queries and keys: (count, first + count), NaN where not visible. Row j is
// visible to query i if j <= i and it was not evicted at the end of a block before i's.
//   throws FileError where queries or keys were not recorded, or where the model's attention is more than a
//   scaled softmax over the cache (soft-capped, or a window shorter than the run)
RowMatrixF recompute_attention(const recording::Recording& recording, int run, int layer, int query_head,
                               std::int64_t first, std::int64_t count);

// Sets every weight to NaN that its query could not see.
//   weights: (count, any) of queries from `first`; evicted_at: of the query head's KV head
void blank_invisible(RowMatrixF& weights, std::int64_t first, const recording::RunInfo& run,
                     std::span<const std::int32_t> evicted_at);

}  // namespace keyscope::figures

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// What queries [first, last) gave one token: the mean of their weights over the query heads of its group, NaN
// where a query could not see it; (last - first) of them. The column of `visible_attention`, without the
// matrix: each block of queries meets the rows that the cache then held, and no others, on all processors.
//   cancelled: checked at every block; throws Cancelled once it is true
//   throws as visible_attention
std::vector<double> attention_column(const recording::Recording& recording, const HeadSelection& selection,
                                     std::int64_t position, std::int64_t first, std::int64_t last,
                                     const std::atomic<bool>& cancelled);

}  // namespace keyscope::measures

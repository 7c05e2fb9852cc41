#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/attention_rules.hpp"
#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// Weights of queries [first, first + count) of one query head over the rows that each could see, recomputed
// from recorded queries and keys by what the model's attention does in that layer (scale, soft cap, window,
// the head's learned sink, which holds their sum below 1) and, with `--positions cache`, by the places that
// rows had: (count, first + count), NaN where not visible.
//   throws FileError where queries or keys were not recorded or have products that are not finite in float32,
//   or as capture::group_rules
RowMatrixF recompute_attention(const recording::Recording& recording, int run, int layer, int query_head,
                               std::int64_t first, std::int64_t count);

// What each prompt token of a KV head would have received without its query heads' learned sinks, with every
// query's attention divided among the tokens that it saw: Σ over the run's prompt queries, mean over the
// group, (n_prompt_seen). What HeadTrace::attention_received is in a model without sinks.
//   throws FileError as recompute_attention
std::vector<double> received_without_sinks(const recording::Recording& recording,
                                           const HeadSelection& selection);

// Whether a run's weights were recorded. A replayed run has keys, queries and evictions, from which weights
// follow, but none that were recorded.
bool has_recorded_attention(const recording::RecordingInfo& info, int run);

// The same shape: the recorded weights where there are any, else the recomputed ones.
//   throws as recompute_attention, and as the recording does
RowMatrixF visible_attention(const recording::Recording& recording, int run, int layer, int query_head,
                             std::int64_t first, std::int64_t count);

// Sets every weight to NaN that its query could not see. Row j is visible to query i if j <= i, the layer's
// window reaches as far back, and it was not evicted at the end of a block before i's.
//   weights: (count, any) of queries from `first`; evicted_at: of the query head's KV head
void blank_invisible(RowMatrixF& weights, std::int64_t first, const recording::RunInfo& run,
                     std::span<const std::int32_t> evicted_at, const analysis::AttentionRules& rules);

// What queries [first, last) gave one token: the mean of their weights over the query heads of its group, NaN
// where a query could not see it; (last - first) of them. The column of `visible_attention`, without the
// matrix: each block of queries meets the rows that the cache then held, and no others, on all processors.
//   cancelled: checked at every block; throws Cancelled once it is true
//   throws as visible_attention
std::vector<double> attention_column(const recording::Recording& recording, const HeadSelection& selection,
                                     std::int64_t position, std::int64_t first, std::int64_t last,
                                     const std::atomic<bool>& cancelled);

}  // namespace keyscope::measures

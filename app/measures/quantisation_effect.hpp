#pragma once

#include "app/measures/head_data.hpp"
#include "app/measures/head_measures.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// The run of a recording that is the same as a quantised one, but for its cache: of the same policy, options,
// budgets and blocks, in the model's dtype, and with all of the prompt read. -1: there is none, or the run is
// not quantised.
int unquantised_run(const recording::RecordingInfo& info, int run);

// What quantising the cache has changed in one KV head, by prompt tokens of both runs: K of the quantised
// run, K' of the other. Fills `quantised_…`, and the bytes of the head's cache; leaves what does not exist.
//   key_error             ‖K - K'‖ / ‖K'‖, over all prompt tokens
//   key_cosine            mean of cos(k_i, k'_i); a zero row has cosine 0 with all
//   score_spearman        ρ between KeyDiff's scores of both, -cos(k_i, mean key), over all prompt tokens
//   retained_jaccard      |R ∩ R'| / |R ∪ R'| of the retained positions
//   attention_difference  ½ Σ_i |a_i - a'_i| of the shares of attention that positions received: 0 where the
//                         same received it, 1 where none did
//   head, end: the quantised run's, and the block at whose end `measures.retained` is taken
void measure_quantisation(const recording::Recording& recording, const recording::RecordingInfo& info,
                          const HeadSelection& selection, const HeadData& head, const BlockEnd& end,
                          HeadMeasures& measures);

}  // namespace keyscope::measures

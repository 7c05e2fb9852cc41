#pragma once

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// Both: every KV head of a run beside its layer's number, a bar from the 5th to the 95th percentile and the
// median on it; one panel for keys, one for the queries of the group where they were recorded.
//   throws UsageError on an unknown run, FileError where no keys were recorded and as the recording does

// cos(k_i, mean key) and cos(q_i, mean query): KeyDiff (arXiv 2504.15364), Fig. 13.
Figure mean_cosines_figure(const recording::Recording& recording, int run);

// ‖k_i‖ and ‖q_i‖: Fig. 15.
Figure norms_figure(const recording::Recording& recording, int run);

}  // namespace keyscope::figures

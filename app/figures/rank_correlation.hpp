#pragma once

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// Whether keys unlike the rest receive the most attention, layer by layer: Spearman's ρ of −cos(k_i, mean
// key) with the attention received, the mean over KV heads and a bar of one standard deviation to either
// side. KeyDiff (arXiv 2504.15364), Table 3, which does not say how attention is aggregated: per query that
// could see the key, the plain sum, and the former with the token's position held fixed.
//   throws UsageError on an unknown run, FileError where no keys were recorded and as the recording does
Figure rank_correlation_figure(const recording::Recording& recording, int run);

}  // namespace keyscope::figures

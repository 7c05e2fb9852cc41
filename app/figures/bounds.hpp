#pragma once

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// KeyDiff's two results (arXiv 2504.15364, Section 3.3, C.3) on the heads of a run. Slack is how far a pair
// of a key and a query keeps from a bound: below zero, it would be violated. Theorem 3.2, over the pairs that
// meet α < 0 < β, with the paper's bound and the exact spherical one; Lemma 3.1 as the paper states it, over
// the visible pairs that its proof covers, and in the form that always holds, over all visible pairs. Of each
// of the two: by layer, heads together, median, 5 to 95 % and the least slack; and a histogram over all
// layers. The caption says how many pairs that is of how many, and counts violations. The numbers are those
// of `analyze` and `validate`; only of 4·10⁹ pairs and more in all are queries sampled, and the caption says
// so.
//   throws UsageError on an unknown run, FileError where keys or queries were not recorded and as the
//   recording does
Figure bounds_figure(const recording::Recording& recording, int run);

}  // namespace keyscope::figures

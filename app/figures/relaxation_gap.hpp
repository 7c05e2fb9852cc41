#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct RelaxationGapSelection {
  std::vector<int> runs;    // indices; what evicts nothing is passed over
  std::int64_t block = -1;  // -1: each run's last prompt block
};

// How far policies stay from the problem that KeyDiff relaxes (arXiv 2504.15364, Eq. A.2: of all sets of N
// keys, the one with the least sum of cosines). Left, the objective as a mean cosine, divided by N²: of what
// the run retained, of what Eq. 8 retains of the same keys at once, and of the best set that local search
// finds from there. Right, the run's distance from the best. Heads and layers: median, 5 to 95 %.
// The search costs keys × head_dim a sweep: of more than 2·10⁹ such products over all heads and runs, evenly
// spaced heads are measured, and the note says how many.
//   throws UsageError on an unknown run or block, FileError where no keys were recorded or no run evicts
Figure relaxation_gap_figure(const recording::Recording& recording, const RelaxationGapSelection& selection);

}  // namespace keyscope::figures

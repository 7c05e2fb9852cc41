#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct OverlapSelection {
  std::vector<int> runs;    // indices
  std::int64_t block = -1;  // -1: each run's last prompt block
};

// How alike the retained sets of every two runs are: Jaccard's |A ∩ B| / |A ∪ B|, the mean over KV heads.
// Left run against run, over all layers; right, where there are two evicting runs or more, every pair of
// these layer by layer.
//   throws UsageError on an unknown run or block, FileError as the recording does
Figure overlap_figure(const recording::Recording& recording, const OverlapSelection& selection);

}  // namespace keyscope::figures

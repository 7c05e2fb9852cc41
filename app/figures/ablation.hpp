#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct AblationSelection {
  std::vector<int> runs;    // indices; `none` is what they are measured against and has no place of its own
  std::int64_t block = -1;  // -1: each run's last prompt block
};

// What evicting costs, by run: attention mass kept and, where values were recorded, the relative error of
// attention's output, over all heads and layers (median, 5 to 95 %); and where logits were, the mean KL
// divergence of the next-token distributions from the full cache's. For runs of one policy under several
// options: KeyDiff (arXiv 2504.15364), Tables 15 and 16, which compare anchors and metrics. The numbers are
// those of `analyze`.
//   throws UsageError on an unknown run or block, FileError where there is no run `none`, or none that evicts
Figure ablation_figure(const recording::Recording& recording, const AblationSelection& selection);

}  // namespace keyscope::figures

#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct DiversitySelection {
  std::vector<int> runs;  // indices; one line each
};

// How diverse the retained keys stay while the prompt is read: log volume (KeyDiff, arXiv 2504.15364,
// Fig. 12), mean pairwise cosine and, where there is a run `none`, the share of its attention that they
// receive, after each block of the prompt. The median over all recorded heads and layers, and for up to three
// runs a band from the 5th to the 95th percentile; the numbers are those of `analyze --block`. Of a prompt of
// many blocks, 16 evenly spaced ones, the last among them, and the caption says so.
//   throws UsageError on an unknown run, FileError where no keys were recorded and as the recording does
Figure diversity_figure(const recording::Recording& recording, const DiversitySelection& selection);

}  // namespace keyscope::figures

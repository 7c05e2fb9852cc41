#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct BlockTimesSelection {
  std::vector<int> runs;  // indices; one line each
};

// Whether any run's blocks were timed: under the layer schedule a block has no time of its own.
bool has_block_times(const recording::RecordingInfo& info);

// Time that each block of the prompt took against its first token's position: flat where eviction bounds the
// cache, rising where nothing is evicted. Tokens generated afterwards are blocks of one token and left out.
//   throws UsageError on an unknown run, FileError where none of the runs was timed
Figure block_times_figure(const recording::Recording& recording, const BlockTimesSelection& selection);

}  // namespace keyscope::figures

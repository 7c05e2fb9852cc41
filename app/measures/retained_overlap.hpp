#pragma once

#include <cstdint>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// How alike the retained sets of runs are: Jaccard's |A ∩ B| / |A ∪ B|, the mean over KV heads. NaN where no
// head has a set in either run.
struct RetainedOverlap {
  RowMatrixD mean;                    // (n_runs, n_runs), over all recorded layers
  std::vector<RowMatrixD> per_layer;  // (n_runs, n_runs) each, in the recording's order of layers
};

// Of the sets after a block, by each run's own count; -1: each run's last prompt block.
//   runs: indices into the recording's runs
//   throws FileError as the recording does, and InvalidInput on a block that a run has not done
RetainedOverlap measure_overlap(const recording::Recording& recording, const std::vector<int>& runs,
                                std::int64_t at_block = -1);

}  // namespace keyscope::measures

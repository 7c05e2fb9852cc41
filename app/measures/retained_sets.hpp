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

// Eq. A.2 of KeyDiff (arXiv 2504.15364), Σ cos(k_i, k_j) over a set of N keys, i = j included, for what a run
// retained of one KV head and for what else could have been retained of the keys that it had seen.
struct SetObjective {
  int layer = 0;
  int kv_head = 0;
  std::int64_t n_retained = 0;
  double retained = 0;   // of the run's set; `cosine_objective` of HeadMeasures
  double at_once = 0;    // of the N keys that Eq. 8 retains of all keys at once
  double best = 0;       // the least found by local search from there; never above at_once
  bool optimal = false;  // all sets were tried
  bool converged = false;

  // How far the run's set is from the best one, of N² cosines each: a mean cosine. Below zero where the
  // search found nothing as good as the run did.
  double gap() const {
    return (retained - best) / (static_cast<double>(n_retained) * static_cast<double>(n_retained));
  }
};

struct SetObjectiveOptions {
  std::int64_t at_block = -1;      // -1: the last prompt block
  std::int64_t most_heads = 1000;  // of more, that many evenly spaced ones are measured
};

// Recorded heads of a run, by layer and KV head; those that retained nothing are left out.
//   throws FileError as the recording does, and InvalidInput on a block that the run has not done
std::vector<SetObjective> measure_set_objectives(const recording::Recording& recording, int run,
                                                 const SetObjectiveOptions& options = {});

}  // namespace keyscope::measures

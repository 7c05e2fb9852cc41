#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// A token before the policy at the end of one block.
struct ScoreMoment {
  std::int64_t block = 0;
  double score = 0;
  std::int64_t rank = 0;    // 1: the highest of all
  std::int64_t n_rows = 0;  // that were scored
  bool forced = false;      // kept whatever it scored
  std::optional<double>
      cut;  // lowest score of a row that was kept without being forced; empty where none went
};

// A token's scores from the block that it came with to the one that it was evicted at, or the last one done.
struct ScoreHistory {
  std::vector<ScoreMoment> moments;
  std::string missing;  // why there are none: "tova scores by attention, …"; else empty
};

// Computed again by the run's policy from recorded keys (and values) of the rows that its cache held, which
// is exact as far as the keys were stored exactly. At the block of an eviction, cut - score is the recorded
// evicted_margin.
//   cancelled: checked at every block; throws Cancelled once it is true
//   throws FileError as the recording does, InvalidInput on a position that the run has not seen
ScoreHistory score_history(const recording::Recording& recording, const HeadSelection& selection,
                           std::int64_t position, const std::atomic<bool>& cancelled);

}  // namespace keyscope::measures

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "capture/replay/replay_plan.hpp"

namespace keyscope::replay {

// What a replayed run left of the prompt in one head.
struct HeadOutcome {
  int layer = 0;
  int kv_head = 0;
  std::int64_t n_retained = 0;
};

struct RunOutcome {
  std::string name;
  std::vector<HeadOutcome> heads;  // by layer, then KV head
};

struct ReplayTarget {
  std::filesystem::path out;
  bool replace = false;  // an existing `out`, once the new one is complete
};

// Told how many rows of plan.rows_total are done, and which run they are of. Called from any thread.
using ReplayProgress = std::function<void(std::int64_t rows_done, const std::string& run)>;

// Simulates block eviction on the prompt's keys of a run that kept everything, one run per policy, and writes
// a recording of that run and of the replayed ones. Scores and selections are those of a capture. In layer 0,
// whose keys no eviction can alter, so are the retained rows; in the layers above, a capture's keys come from
// hidden states that have lost what was evicted below, and a replay's do not.
//   One layer is worked on at a time, its heads in parallel.
//   throws Cancelled within one block once `cancelled` is set; the runs done by then are kept
//   throws FileError where the source cannot be read or `out` cannot be written
std::vector<RunOutcome> run_replay(const Source& source, const ReplayPlan& plan, const ReplayTarget& target,
                                   const ReplayProgress& progress, const std::atomic<bool>& cancelled);

}  // namespace keyscope::replay

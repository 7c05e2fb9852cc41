#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::replay {

// A recording file to replay from, as Keyscope reads it and as it lies there.
struct Source {
  std::shared_ptr<recording::Recording> recording;
  recording::hdf5::File file;
};

//   throws FileError as `open_recording` does
Source open_source(const std::string& path);

struct ReplayOptions {
  std::string run = "none";                    // whose keys
  std::vector<analysis::PolicySpec> policies;  // `none` adds nothing: that run is there
  analysis::Budget budget;                     // N: rows per KV head, or a share of the prompt
  std::int64_t block_size = 128;               // B
  std::vector<int> layers;                     // empty: all that were recorded
  std::uint64_t seed = 0;
  std::string command;  // for the provenance
};

// The layer whose keys no eviction can alter, since nothing is evicted below: layer 0, or in a model whose
// first layers have no keys the one after these.
int exact_layer(const recording::RecordingInfo& info);

// What a replay will do, and what its recording will say of itself.
struct ReplayPlan {
  int source_run = 0;
  std::vector<int> layers;          // ascending
  std::vector<int> keyless_layers;  // recorded layers without keys, which are copied where all layers are
  int exact_layer = 0;
  recording::Provenance provenance;
  std::vector<analysis::PolicySpec> policies;
  std::vector<recording::RunPlan> runs;  // one per policy, in the same order
  bool scores_queries = false;           // whether a policy looks at queries
  // Of the recorded keys and values, and of queries that a policy looks at, the coarsest.
  recording::StoreType store = recording::StoreType::kFloat32;
  std::uint64_t seed = 0;
  std::int64_t rows_total = 0;  // of all runs, layers and KV heads, and of the source run that is copied
  std::int64_t disk_bytes = 0;
};

//   throws UsageError on options that cannot be: an unknown run, policy or layer, no budget, no policy, or a
//   run that evicted
//   throws FileError where the recording holds too little: a prompt not read to its end, no keys, no values
//   for a policy that scores them, no norms of values for one that weighs them, no attention weights for one
//   that sums over a window of queries, and for one that looks at queries none of them or a model that is not
//   known
ReplayPlan plan_replay(const Source& source, const ReplayOptions& options);

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

// Called with how many rows of plan.rows_total are done, and which run they are of; from any thread.
using ReplayProgress = std::function<void(std::int64_t rows_done, const std::string& run)>;

// Simulates block eviction on the prompt's keys of a run that kept everything, one run per policy, and writes
// a recording of that run and of the replayed ones. Scores and selections are those of a capture. In the
// exact layer, so are the retained rows; in the layers above, a capture's keys and queries come from hidden
// states that have lost what was evicted below, and a replay's do not.
//   One layer is worked on at a time, its heads in parallel.
//   throws Cancelled within one block once `cancelled` is set; the runs done by then are kept
//   throws FileError where the source cannot be read or `out` cannot be written
std::vector<RunOutcome> run_replay(const Source& source, const ReplayPlan& plan, const ReplayTarget& target,
                                   const ReplayProgress& progress, const std::atomic<bool>& cancelled);

}  // namespace keyscope::replay

#pragma once

// The measures of every run, layer and KV head of a recording, and the shapes they are reported in.

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/measures/head_measures.hpp"

namespace keyscope::measures {

// What to measure; empty lists mean everything that was recorded.
struct MeasureSelection {
  std::vector<int> runs;  // indices into the recording's runs
  std::vector<int> layers;
  std::vector<int> kv_heads;
};

// Called after every head, from any of the working threads, with heads done, heads in all and what was done.
using MeasureProgress = std::function<void(std::int64_t, std::int64_t, const std::string&)>;

// Measures heads in parallel; the result is in order of run, layer, KV head whatever the number of threads.
//   cancelled: checked before every head; throws Cancelled once it is true
//   throws UsageError on a run, layer or KV head that the recording does not have
std::vector<RunMeasures> measure_recording(const recording::Recording& recording,
                                           const MeasureSelection& selection, const MeasureOptions& options,
                                           const MeasureProgress& progress,
                                           const std::atomic<bool>& cancelled);

// Every recorded head of one run after a block (-1: the last prompt block), in order of layer and KV head,
// without the costly bounds and PCA: what figures of all heads are drawn from.
//   retained_only: as in MeasureOptions
//   throws as measure_head
std::vector<HeadMeasures> measure_heads(const recording::Recording& recording, int run,
                                        std::int64_t at_block = -1, bool retained_only = false);

// The object that `analyze --json` writes: {"format": 1, "model": …, "n_prompt": …, "runs": […]}.
// Values that do not exist are null.
nlohmann::ordered_json measures_json(const recording::RecordingInfo& info,
                                     const std::vector<RunMeasures>& runs);

// The mean of one measure over the heads that have it; empty if none does.
std::optional<double> mean_over_heads(const std::vector<HeadMeasures>& heads,
                                      std::optional<double> HeadMeasures::*measure);

}  // namespace keyscope::measures

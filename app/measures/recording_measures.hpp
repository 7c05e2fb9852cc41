#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/measures/head_measures.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// The measures of every run, layer and KV head of a recording, and the shapes they are reported in.
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
                                           const MeasureSelection& selection, Parts parts,
                                           const MeasureProgress& progress,
                                           const std::atomic<bool>& cancelled);

// Every recorded head at several moments, [moment][head], in order of layer and KV head; what they have in
// common is read once.
//   throws as measure_head; Cancelled where the caller's tasks were called off
std::vector<std::vector<HeadMeasures>> measure_heads(const recording::Recording& recording,
                                                     std::span<const Moment> moments, Parts parts);

// The object that `analyze --json` writes: {"format": 1, "model": …, "n_prompt": …, "runs": […]}.
// Values that do not exist are null.
nlohmann::ordered_json measures_json(const recording::RecordingInfo& info,
                                     const std::vector<RunMeasures>& runs);

// The mean of one measure over the heads that have it; empty if none does.
std::optional<double> mean_over_heads(const std::vector<HeadMeasures>& heads,
                                      std::optional<double> HeadMeasures::*measure);

// What `analyze --csv` writes: a line of names, then one line per run, layer and KV head with the numbers of
// `analyze --json` under the same names; `retained` is their number there, `pca_explained` two columns. A
// value that does not exist is empty. Fields as RFC 4180 has them, lines ending in \n.
std::string measures_csv(const recording::RecordingInfo& info, const std::vector<RunMeasures>& runs);

struct ComparisonOptions {
  double tolerance = 1e-5;   // of floating-point values, as a share of the dataset's largest
  double close_call = 2e-5;  // rows evicted by so small a margin may go either way; margins differ by as much
};

// One dataset of one layer of one run, all heads together.
struct DatasetDifference {
  std::string run;
  int layer = 0;  // -1: of the run, not of a layer
  std::string dataset;
  std::int64_t n_different = 0;    // integers that differ, and numbers against NaN
  std::int64_t n_close_calls = 0;  // of evicted_at: rows that differ, but were close calls
  double largest_difference = 0;   // of floating-point values
  double largest_value = 0;
  double tolerance = 0;  // as a share of largest_value, with `rounding` and, of margins, close calls
  double rounding = 0;   // the same share: by how much rows may differ because they were stored rounded

  bool agrees() const { return n_different == 0 && largest_difference <= tolerance * largest_value; }
};

struct RecordingDifference {
  std::vector<std::string> structure;  // what only one of the two has, or has otherwise: a sentence each
  std::vector<DatasetDifference> datasets;

  bool agrees() const;
};

// Compares two recordings of the same model and prompt: runs by name, layers by number; what only one
// recorded is a difference, but for times. Where one holds fewer tokens of a run (it was cut short), the
// tokens that both have are compared.
//   progress: called after every layer with layers done and in all
//   cancelled: checked before every layer; throws Cancelled once it is true
//   throws UsageError where the shapes of the models or the prompts differ, so that nothing can be compared
RecordingDifference compare_recordings(const recording::Recording& a, const recording::Recording& b,
                                       const ComparisonOptions& options,
                                       const std::function<void(std::int64_t, std::int64_t)>& progress,
                                       const std::atomic<bool>& cancelled);

}  // namespace keyscope::measures

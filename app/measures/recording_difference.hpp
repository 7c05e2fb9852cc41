#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::measures {

struct ComparisonOptions {
  double tolerance = 1e-5;   // of floating-point values, as a share of the dataset's largest
  double close_call = 2e-5;  // rows whose score lay so close to the cut, relative to it, may go either way
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
  double tolerance = 0;  // as a share of largest_value, with `rounding`
  double rounding = 0;   // the same share: by how much rows may differ because they were stored rounded

  bool agrees() const { return n_different == 0 && largest_difference <= tolerance * largest_value; }
};

struct RecordingDifference {
  std::vector<std::string> structure;  // what only one of the two has, or has otherwise: a sentence each
  std::vector<DatasetDifference> datasets;

  bool agrees() const;
};

// Compares two recordings of the same model and prompt: runs by name, layers by number, what both recorded.
// Where one holds fewer tokens of a run (it was cut short), the tokens that both have are compared.
//   progress: called after every layer with layers done and in all
//   cancelled: checked before every layer; throws Cancelled once it is true
//   throws UsageError where the shapes of the models or the prompts differ, so that nothing can be compared
RecordingDifference compare_recordings(const recording::Recording& a, const recording::Recording& b,
                                       const ComparisonOptions& options,
                                       const std::function<void(std::int64_t, std::int64_t)>& progress,
                                       const std::atomic<bool>& cancelled);

}  // namespace keyscope::measures

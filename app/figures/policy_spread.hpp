#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/measures/head_measures.hpp"

namespace keyscope::figures {

// A measure of a retained set by which policies are compared.
struct ComparedMeasure {
  std::string_view figure;  // the figure's name
  std::string_view title;
  Axis axis;
  std::optional<double> measures::HeadMeasures::*value;
  bool grows_with_size =
      false;  // a sum over the set: only sets of one size can be compared, so no full cache
};

// Log volume (KeyDiff, arXiv 2504.15364, Fig. 12), redundancy, the objective of Eq. A.2, attention mass kept
// and output error.
std::span<const ComparedMeasure> compared_measures();

struct PolicySpreadSelection {
  std::vector<int> runs;    // indices; one place on the axis each
  std::int64_t block = -1;  // the retained sets after this block; -1: after each run's last prompt block
};

// How a measure is spread over all recorded heads and layers, for every run: each head a point, with the
// median and the bar from the 5th to the 95th percentile beside them.
//   throws UsageError on an unknown run or block, FileError where no run has the measure and as the recording
//   does
Figure policy_spread_figure(const recording::Recording& recording, const PolicySpreadSelection& selection,
                            const ComparedMeasure& measure);

}  // namespace keyscope::figures

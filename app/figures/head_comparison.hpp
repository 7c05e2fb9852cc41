#pragma once

#include "app/figures/figure.hpp"
#include "app/figures/head_measure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct HeadComparison {
  int run = 0;         // indices into the recording's runs
  int reference = -1;  // whose values are taken off; -1: none
};

// `head-map`: one measure of every KV head of a run at the end of its prompt, or how much it differs from
// another run's, or what both retained alike: layers from top to bottom, heads from left to right. Layers
// that were not recorded, and heads without a value, are blank. The window's map of heads, in files.
//   throws UsageError on an unknown run, FileError as the recording does
Figure head_comparison_figure(const recording::Recording& recording, const HeadComparison& selection,
                              const HeadMeasure& measure);

}  // namespace keyscope::figures

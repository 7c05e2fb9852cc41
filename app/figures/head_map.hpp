#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/measures/head_measures.hpp"

namespace keyscope::figures {

// A measure between -1 and 1 that a map of heads shows, a diverging colour each way.
struct MappedMeasure {
  std::string_view figure;  // the figure's name
  std::string_view title;
  std::string_view label;  // of the colour scale
  std::optional<double> measures::HeadMeasures::*value;
};

// cos(mean key, mean query) (KeyDiff, arXiv 2504.15364, Fig. 14), and cos(top key, mean query), the key that
// KeyDiff scores highest (Fig. 16).
std::span<const MappedMeasure> mapped_measures();

// One measure of every KV head of a run: layers from top to bottom, heads from left to right; layers that
// were not recorded, and heads without a value, are blank.
//   throws UsageError on an unknown run, FileError as the recording does
Figure head_map_figure(const recording::Recording& recording, int run, const MappedMeasure& measure);

// The values of one measure by layer and KV head, NaN where there is none: (last - first layer + 1,
// n_kv_heads).
//   heads: of one run, in any order
RowMatrixF head_grid(const std::vector<measures::HeadMeasures>& heads, int n_kv_heads,
                     std::optional<double> measures::HeadMeasures::*value, int first_layer, int last_layer);

}  // namespace keyscope::figures

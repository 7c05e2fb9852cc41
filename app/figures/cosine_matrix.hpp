#pragma once

#include <cstdint>

#include "app/figures/figure.hpp"
#include "app/figures/reduction.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

inline constexpr int kMaxHeatmapSize = 1024;

struct CosineMatrixSelection {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;     // -1: the last prompt block
  bool retained_only = false;  // the keys present after the block, instead of all tokens seen by then
  Reduction reduction = Reduction::kMean;
  int max_size = kMaxHeatmapSize;  // more tokens than this are reduced, and the panel's note says so
};

// Cosines between every two keys of one head (Fig. 2, left), on a scale from -1 to 1. Rows and columns of a
// key without length are NaN.
//   throws UsageError on a run, layer, head or block that is not there, FileError when keys were not recorded
Figure cosine_matrix_figure(const recording::Recording& recording, const CosineMatrixSelection& selection);

}  // namespace keyscope::figures

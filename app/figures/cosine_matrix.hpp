#pragma once

#include <cstdint>
#include <optional>

#include "app/figures/figure.hpp"
#include "app/figures/reduction.hpp"
#include "app/figures/token_order.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

inline constexpr int kMaxHeatmapSize = 1024;

// Keys that `keyscope figure` orders by a dendrogram: their distances take 2 GiB, the tree half a minute.
inline constexpr std::int64_t kMostKeysInDendrogram = 32'768;

struct CosineMatrixSelection {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;     // -1: the last prompt block
  bool retained_only = false;  // the keys present after the block, instead of all tokens seen by then
  MatrixOrder order = MatrixOrder::kPosition;
  std::optional<std::int64_t> most_ordered;  // keys that a dendrogram may order; empty: any number
  Reduction reduction = Reduction::kMean;
  int max_size = kMaxHeatmapSize;  // more tokens than this are reduced, and the panel's note says so
};

// Cosines between every two keys of one head (Fig. 2, left), on a scale from -1 to 1. Rows and columns of a
// key without length are 0.
// Cosines alone have an order by dendrogram: they are alike in both directions, as a distance must be.
// Weights of attention are not, and in another order than time's what a query could not see yet would lie
// anywhere.
//   throws UsageError on a run, layer, head or block that is not there, or on more keys than `most_ordered`
//   to be ordered; FileError when keys were not recorded
Figure cosine_matrix_figure(const recording::Recording& recording, const CosineMatrixSelection& selection);

}  // namespace keyscope::figures

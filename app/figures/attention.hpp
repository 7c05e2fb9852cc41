#pragma once

#include <cstdint>

#include "app/figures/figure.hpp"
#include "app/figures/reduction.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct AttentionSelection {
  int run = 0;
  int layer = 0;
  int query_head = 0;
  std::int64_t block = -1;  // queries up to the end of this block; -1: the last prompt block
  bool logarithmic = true;
  Reduction reduction = Reduction::kMax;
  int max_size = 1024;
};

// Attention weights of one query head (Fig. 2, right): a row per query, a column per key. What a query could
// not see (later tokens, evicted rows) is NaN. Recorded weights where there are any, else recomputed.
//   throws UsageError on a run, layer, head or block that is not there, FileError where neither attention nor
//   queries and keys were recorded, or where the model's attention is not a plain softmax
Figure attention_figure(const recording::Recording& recording, const AttentionSelection& selection);

}  // namespace keyscope::figures

#pragma once

#include <vector>

#include "capture/recording/recording.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

// Per recorded head, rows one after another; grown block by block.
using HeadRows = std::vector<std::vector<float>>;

// What a capture has told of one layer of one run so far.
struct LiveLayer {
  HeadRows keys, queries, values;
  std::vector<HeadTrace> traces;                   // per KV head, as long as the tokens seen
  std::vector<std::vector<float>> attention_rows;  // per block: (R, n_new, start + n_new)
  AttentionStatistics statistics;                  // entropy of the whole prompt, NaN so far

  LiveLayer(const RecordPlan& plan, const RunPlan& run);

  // What the next block, checked before, says about this layer.
  //   throws InvalidInput where it evicts a row twice
  void add(const BlockRecord& record, const LayerBlock& block);
};

}  // namespace keyscope::recording

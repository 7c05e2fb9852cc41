#pragma once

#include "capture/inference/layer_arithmetic.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// What is recorded of a layer; nothing at all where the layer is not recorded.
struct LayerRecording {
  bool layer = false;
  bool keys = false;
  bool queries = false;
  bool values = false;
  bool attention = false;
  recording::RecordedHeads heads = {};
};

// A block's own keys, queries and values, as float32, into its record: those of the recorded heads, and no
// row of another is copied.
void record_rows(const LayerArithmetic& layer, const LayerRecording& recording,
                 recording::LayerBlock& record);

}  // namespace keyscope::capture

#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "analysis/policies/policy.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/model/transformer.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// What one layer records of a block; nothing at all where the layer is not recorded.
struct LayerRecording {
  bool keys = false;
  bool queries = false;
  bool values = false;
  bool attention = false;
};

// One block in one layer, as every schedule needs it.
struct LayerStep {
  int layer = 0;
  std::int64_t first_position = 0;  // of the block's first token
  bool prompt = true;               // generated tokens' queries do not count as attention received
  bool last_prompt_block = false;
  const analysis::Policy* policy = nullptr;  // null: nothing is evicted
  std::int64_t budget = 0;
  bool record_layer = false;  // whether the result's record is filled at all
  LayerRecording recording;
};

struct LayerResult {
  at::Tensor hidden;             // (n, hidden_size): the layer's output
  recording::LayerBlock record;  // empty unless recorded
  std::int64_t peak_rows = 0;    // rows in the cache before eviction
};

// Runs a block through one layer: project, append to the cache, attend, score, evict, MLP.
//   hidden: (n, hidden_size)
//   throws InvalidInput naming the layer where attention meets NaN or Inf
LayerResult run_layer(const Transformer& transformer, const LayerStep& step, const at::Tensor& hidden,
                      const RotaryTable& rotary, KvCache& cache);

}  // namespace keyscope::capture

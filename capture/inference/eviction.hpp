#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/attention.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/inference/layer_step.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// (H_q, count, n_rows) weights averaged over each group's heads and summed over the queries: (H_kv, n_rows).
at::Tensor group_mean(const at::Tensor& weights, int n_kv_heads);

// Evicts a layer's cache down to the step's budget, every KV head by its own scores, and says what went: one
// entry per KV head, empty where nothing was evicted.
std::vector<recording::HeadEvictions> evict(const LayerStep& step, const AttentionInput& input,
                                            const at::Tensor& log_sum_exp, KvCache& cache);

}  // namespace keyscope::capture

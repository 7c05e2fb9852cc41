#pragma once

#include <cstdint>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/inference/attention.hpp"
#include "capture/inference/layer_arithmetic.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// How a layer evicts: by which policy, and to how many rows each KV head.
struct EvictionRule {
  const analysis::Policy* policy = nullptr;  // null: nothing is evicted
  std::vector<std::int64_t> budgets;         // (n_kv_heads)
  int layer = 0;

  // Whether a cache as it stands is to be cut.
  bool due(const KvCache& cache) const;
};

// Statistics that the rule's policy wants of a block's attention.
AttentionWants attention_wants(const analysis::PolicyNeeds& needs);

// Evicts a layer's cache down to the rule's budgets, every KV head by its own scores, and says what went: one
// entry per KV head, empty where nothing was evicted.
//   output: the block's attention, with what attention_wants asked for; its first window is the policy's
std::vector<recording::HeadEvictions> evict(const EvictionRule& rule, LayerArithmetic& layer,
                                            const AttentionOutput& output);

// Drops rows that no query from `next_position` on will see through a window, once and for all: these have no
// margin (NaN).
std::vector<recording::HeadEvictions> drop_past_window(std::int64_t window, std::int64_t next_position,
                                                       KvCache& cache);

}  // namespace keyscope::capture

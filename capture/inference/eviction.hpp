#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "analysis/policies/row_selection.hpp"
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

// Statistics that a policy wants of a block's attention: alone, and beside what others want of it.
AttentionWants attention_wants(const analysis::PolicyNeeds& needs);
void add_wants(AttentionWants& wants, const analysis::PolicyNeeds& needs);

// What policies may look at of the block after which they evict, per query head: what add_wants asked for
// them all. Column sums are not among it, since the cache holds them.
struct BlockStatistics {
  std::int64_t n_queries = 0;
  PerRow<float> last_row;
  std::map<std::int64_t, PerRow<double>> window_sums;  // by the window that was asked for
};

// What went out of a layer's cache: one entry per KV head, empty where nothing did; and what stays.
struct LayerEviction {
  std::vector<recording::HeadEvictions> heads;
  RetainedRows retained;  // of the rows that were there; no heads: nothing was evicted
};

// Evicts a layer's cache down to the rule's budgets, every KV head by its own scores.
//   told: whether anybody will look at what is returned, which may be empty otherwise
LayerEviction evict(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block,
                    bool told = true);

// The heads of a cache that hold more rows than the rule leaves them.
std::vector<int> heads_to_evict(const EvictionRule& rule, const KvCache& cache);

// What is done to a cache where of each of these heads only what was selected stays, and of the others all.
LayerEviction eviction_of(const KvCache& cache, const std::vector<int>& heads,
                          std::vector<analysis::Selection> selections);

// The attention weights that a policy asked for, of the block and of KV heads; empty where it asked for none.
struct PolicyAttention {
  PerRow<float> last_row_group;       // [n_kv_heads][n_rows]
  std::vector<float> last_row_layer;  // (n_rows)
  PerRow<float> window_sums;          // [n_kv_heads][n_rows]
};
PolicyAttention policy_attention(const analysis::PolicyNeeds& needs, int n_kv_heads,
                                 const BlockStatistics& block);

// Drops rows that no query from `next_position` on will see through a window, once and for all: these have no
// margin (NaN).
std::vector<recording::HeadEvictions> drop_past_window(std::int64_t window, std::int64_t next_position,
                                                       KvCache& cache);

}  // namespace keyscope::capture

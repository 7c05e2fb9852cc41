#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "analysis/policies/layer_budgets.hpp"
#include "analysis/policies/policy.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "capture/inference/attention.hpp"
#include "capture/inference/layer_arithmetic.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// How a layer evicts: by which policy, and to how many rows each KV head.
struct EvictionRule {
  const analysis::Policy* policy = nullptr;  // null: nothing is evicted
  std::vector<std::int64_t> budgets;         // (n_kv_heads)
  int layer = 0;
  std::int64_t nominal = 0;  // the run's N, which shares of protected rows are of
  std::int64_t n_prompt = std::numeric_limits<std::int64_t>::max();  // positions from here on were generated

  // Whether a cache as it stands is to be cut, or may be, where all layers decide.
  //   n_read: tokens so far
  bool due(const KvCache& cache, std::int64_t n_read) const;
  bool above(const KvCache& cache) const;  // whether it holds more than the budgets
  // Whether that is decided for all layers together, at the block's end.
  bool with_all_layers() const;
  bool deals() const;  // whether all layers' budgets are dealt out there, too
  analysis::LayerCut cut() const { return {budgets, nominal, n_prompt}; }
};

// How many of a block's last queries a policy, or how its budget is dealt, looks at one by one; 0: none.
std::int64_t looked_at_queries(const analysis::Policy& policy);

// Statistics that a policy wants of a block's attention: alone, and beside what others want of it.
AttentionWants attention_wants(const analysis::PolicyNeeds& needs);
void add_wants(AttentionWants& wants, const analysis::PolicyNeeds& needs);

// What policies may look at of the block after which they evict, per query head: what add_wants asked for
// them all. Column sums are not among it, since the cache holds them.
struct BlockStatistics {
  std::int64_t n_queries = 0;
  PerRow<float> last_row;
  std::map<std::int64_t, PerRow<double>> window_sums;  // by the window that was asked for
  // Its last queries after RoPE, (n_heads, w, head_dim) where the rows lie, of the positions up to `end`;
  // undefined where no policy looks at queries or at each one's weights.
  at::Tensor queries = {};
  std::int64_t end = 0;
  std::vector<analysis::AttentionRules> rules = {};  // per query head
  const analysis::Rotation* rotation = nullptr;      // how the layer's queries and keys turn
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

// A cache that holds what its lender's does loses what that one lost.
LayerEviction follow_lender(const LayerEviction& eviction, KvCache& cache);

// The scores that a rule's policy gives a layer's rows, and what it forces of them.
struct LayerRanks {
  std::vector<std::vector<double>> scores;        // [n_kv_heads][n_rows]
  std::vector<std::vector<std::uint8_t>> forced;  // likewise

  // Valid as long as these and the cache do not change.
  std::vector<analysis::RankedRows> rows(const KvCache& cache) const;
};
LayerRanks rank_layer(const EvictionRule& rule, LayerArithmetic& layer, const BlockStatistics& block);

// What CAKE measures of the block's last kCakeWindow queries, or all if they are fewer, which it holds.
analysis::LayerPreference layer_preference(LayerArithmetic& layer, const BlockStatistics& block);

// Where all heads are cut: only what was selected of each stays.
LayerEviction retain(KvCache& cache, std::vector<analysis::Selection> selections);

// The heads of a cache that the rule cuts, one by one or all of a layer.
std::vector<int> heads_to_evict(const EvictionRule& rule, const KvCache& cache);

// The true positions of every KV head's rows.
using RowPositions = std::vector<std::span<const std::int32_t>>;
RowPositions positions_of(const KvCache& cache);

// What is done to rows where of each of these heads only what was selected stays, and of the others all.
LayerEviction eviction_of(const RowPositions& positions, const std::vector<int>& heads,
                          std::vector<analysis::Selection> selections);
// Where all heads are cut.
LayerEviction eviction_of(const RowPositions& positions, std::vector<analysis::Selection> selections);

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

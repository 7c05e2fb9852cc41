#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/attention_rules.hpp"
#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"
#include "analysis/policies/slots.hpp"
#include "analysis/policies/unrotated.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::replay {

// What a replayed policy scores one KV head by, all of it over the prompt's tokens. Empty where the policy
// does not read it. Queries are put to the simulated cache block by block, as a run puts them. Statistics of
// attention are those of the whole prompt: what an eviction at block b could not have known yet, which makes
// every policy that reads them an oracle.
struct HeadSource {
  RowMatrixF keys;                              // (n_prompt, head_dim)
  RowMatrixF values;                            // (n_prompt, head_dim)
  std::vector<float> last_row_group;            // weight from the last prompt query, mean over the group
  std::vector<float> last_row_layer;            // the same, mean over all query heads of the layer
  std::vector<double> attention_received;       // sum over all prompt queries, mean over the group
  std::vector<std::int32_t> attention_queries;  // how many of them could see the row
  std::vector<float> window_sums;               // sum over the last w prompt queries, mean over the group
  std::vector<double> value_norms = {};         // ‖W_O v‖₁, mean over the group, where values weigh
  // Per query head of the group (n_prompt, head_dim), after RoPE and before; and how each one attends.
  std::vector<RowMatrixF> queries = {}, unrotated_queries = {};
  std::vector<analysis::AttentionRules> rules = {};
  analysis::Rotation rotation = {};  // how queries and keys turned
};

// The name of the recorded statistic that takes the place of the attention a policy asks for, which makes it
// an oracle; empty where it asks for none.
std::string oracle_statistic(const analysis::PolicyNeeds& needs);

// Why queries of these layers cannot be put to a simulated cache as a policy wants: they were not recorded,
// or what the model does with them is not known. Empty where they can, or nobody wants it.
std::string query_refusal(const recording::RecordingInfo& info, const analysis::PolicyNeeds& needs,
                          std::span<const int> layers);

// Likewise why the attention of the prompt's last queries cannot be looked at as a policy wants.
std::string window_refusal(const recording::RecordingInfo& info, const analysis::PolicyNeeds& needs);

// Likewise why values of these layers cannot weigh as a policy wants.
std::string value_norm_refusal(const recording::RecordingInfo& info, const analysis::Slots& slots,
                               std::span<const int> layers);

// The layer by whose queries the rows of a layer are scored: the one whose keys it borrows, if that was
// recorded, or itself.
int scored_layer(const recording::RecordingInfo& info, int layer);

// (n_prompt) mean over all query heads of the weight from the last prompt query; empty unless it is needed.
std::vector<float> read_last_row_layer(const recording::Recording& recording,
                                       const analysis::PolicyNeeds& needs, int run, int layer);

// Reads what a policy looks at of one head of a run that kept everything. `last_row_layer` stays empty.
//   throws FileError as the recording does, on numbers that are not finite, naming the place, and with what
//   query_refusal and value_norm_refusal say
HeadSource read_head_source(const recording::Recording& recording, const analysis::Policy& policy, int run,
                            int layer, int kv_head);

// What became of every prompt token of one KV head, as a recording says it.
struct HeadEvictions {
  std::vector<std::int32_t> evicted_at;  // (n_prompt) block at whose end the row went; -1: still there
  std::vector<float>
      evicted_margin;  // (n_prompt) NaN where it did not, a window passed it, or all that stayed were forced

  std::int64_t n_retained() const;
};

// A layer's caches, of which every KV head has the same budget.
struct ReplayedCache {
  int layer = 0;
  std::int64_t budget = 0;
  std::int64_t block_size = 0;
  std::int64_t window = 0;  // the layer's sliding window; 0: none
};

// Whether a policy cuts every KV head without looking at the others.
bool cuts_heads_alone(const analysis::Policy& policy);

// Lets a head's rows into a cache block by block, drops after each what a sliding window has passed, and
// evicts down to the budget, exactly as a capture does with the rows that its model computes. For policies
// that cut heads alone.
//   after_block: called with the number of rows that came in; may throw to stop
//   throws InvalidInput as the policy and `select_layer` do
HeadEvictions replay_head(const analysis::Policy& policy, const HeadSource& source, int kv_head,
                          const ReplayedCache& cache,
                          const std::function<void(std::int64_t n_rows)>& after_block);

// The same of all KV heads of a layer together.
std::vector<HeadEvictions> replay_heads(const analysis::Policy& policy, std::span<const HeadSource> sources,
                                        const ReplayedCache& cache,
                                        const std::function<void(std::int64_t n_rows)>& after_block);

}  // namespace keyscope::replay

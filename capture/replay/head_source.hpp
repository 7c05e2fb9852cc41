#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::replay {

// What a replayed policy scores one KV head by, all of it over the prompt's tokens. Empty where the policy
// does not read it. Attention is that of the whole prompt: what an eviction at block b could not have known
// yet, which makes every policy that reads it an oracle.
struct HeadSource {
  RowMatrixF keys;                              // (n_prompt, head_dim)
  RowMatrixF values;                            // (n_prompt, head_dim)
  std::vector<float> last_row_group;            // weight from the last prompt query, mean over the group
  std::vector<float> last_row_layer;            // the same, mean over all query heads of the layer
  std::vector<double> attention_received;       // sum over all prompt queries, mean over the group
  std::vector<std::int32_t> attention_queries;  // how many of them could see the row
  std::vector<float> window_sums;               // sum over the last w prompt queries, mean over the group
};

// The name of the recorded statistic that takes the place of the attention a policy asks for; empty where it
// asks for none.
std::string oracle_statistic(const analysis::PolicyNeeds& needs);

// (n_prompt) mean over all query heads of the weight from the last prompt query; empty unless it is needed.
std::vector<float> read_last_row_layer(const recording::Recording& recording,
                                       const analysis::PolicyNeeds& needs, int run, int layer);

// Reads what `needs` names of one head of a run that kept everything. `last_row_layer` stays empty.
//   throws FileError as the recording does, and on keys or values that are not finite, naming the place
HeadSource read_head_source(const recording::Recording& recording, const analysis::PolicyNeeds& needs,
                            int run, int layer, int kv_head);

}  // namespace keyscope::replay

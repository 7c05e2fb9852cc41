#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/replay/head_source.hpp"

namespace keyscope::replay {

// What became of every prompt token of one KV head, as a recording says it.
struct HeadEvictions {
  std::vector<std::int32_t> evicted_at;  // (n_prompt) block at whose end the row went; -1: still there
  std::vector<float>
      evicted_margin;  // (n_prompt) NaN where it did not, a window passed it, or all that stayed were forced

  std::int64_t n_retained() const;
};

// Which head, under which cache.
struct HeadCache {
  int layer = 0;
  int kv_head = 0;
  std::int64_t budget = 0;
  std::int64_t block_size = 0;
  std::int64_t window = 0;  // the layer's sliding window; 0: none
};

// Lets a head's rows into a cache block by block, drops after each what a sliding window has passed, and
// evicts down to the budget, exactly as a capture does with the rows that its model computes.
//   after_block: called with the number of rows that came in; may throw to stop
//   throws InvalidInput as the policy and `select_rows` do
HeadEvictions replay_head(const analysis::Policy& policy, const HeadSource& source, const HeadCache& cache,
                          const std::function<void(std::int64_t n_rows)>& after_block);

}  // namespace keyscope::replay

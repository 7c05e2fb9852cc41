#pragma once

// Block eviction over keys and queries that lie in memory: the slow, obvious path that the policies' tests
// share.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

struct SimulatedHead {
  RowMatrixF keys;                  // (n_tokens, head_dim)
  std::vector<RowMatrixF> queries;  // one (n_tokens, head_dim) per query head of the group
};

struct SimulatedTrace {
  std::vector<std::int32_t> evicted_at;  // (n_tokens) block, or -1
  std::vector<float> margin;             // (n_tokens) NaN where not evicted
};

// Runs a policy over a layer in blocks of `block` tokens with a budget of `budget` rows per KV head.
std::vector<SimulatedTrace> simulate_blocks(const std::string& policy,
                                            const std::vector<SimulatedHead>& heads, std::int64_t budget,
                                            std::int32_t block);

}  // namespace keyscope::analysis

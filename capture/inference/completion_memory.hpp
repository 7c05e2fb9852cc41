#pragma once

#include <cstdint>

#include "capture/inference/completion_tree.hpp"
#include "capture/model/arithmetic.hpp"
#include "capture/model/config.hpp"

namespace keyscope::capture {

// What the runs of a walk hold while they wait and go on, at the moment when that is most.
struct CompletionMemory {
  std::int64_t cache_bytes = 0;  // keys and values, and what is kept of a block's attention for evictions
  std::int64_t n_runs = 0;       // that are alive then
};

// Takes every step of the walk but for the inference.
//   block_size: B; element_bytes: of the model's dtype
CompletionMemory completion_memory(const ModelConfig& config, std::int64_t block_size,
                                   const CompletionTree& tree, std::int64_t element_bytes,
                                   Arithmetic arithmetic);

// Refuses runs that together need more than `available` bytes.
//   block_bytes: of the largest block's activations
//   throws Error with the figures and what would need less
void check_completion_memory(const CompletionMemory& memory, std::int64_t block_bytes,
                             std::int64_t available);

}  // namespace keyscope::capture

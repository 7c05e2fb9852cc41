#pragma once

#include <cstdint>
#include <span>

#include "app/results/budget.hpp"
#include "capture/model/config.hpp"

namespace keyscope::adoption {

// What the caches of a set of prompts take, one prompt at a time.
struct CacheMemory {
  double occupancy = 0;             // rows kept after a prompt over tokens seen, mean over prompts and layers
  double mean_bytes = 0;            // of keys and values after a prompt, mean over prompts
  std::int64_t p95_length = 0;      // the 95th-percentile prompt length, in tokens
  std::int64_t p95_bytes = 0;       // after a prompt of that length
  std::int64_t p95_peak_bytes = 0;  // the most while it is read: a block comes in before the surplus goes
};

// Bytes of one token's keys and values in one layer.
std::int64_t row_bytes(const capture::ModelConfig& config, std::int64_t element_bytes);

// Of a layer with a sliding window, rows that have left it count neither as kept nor in the full cache.
//   lengths: of the prompts, at least one, each at least 1
//   budget: null for the full cache
//   throws InvalidInput otherwise
//   source: KeyDiff (arXiv 2504.15364), Table 9; quantiles as `analysis::quantiles` defines them
CacheMemory cache_memory(const capture::ModelConfig& config, std::int64_t element_bytes,
                         std::span<const std::int64_t> lengths, const results::Budget* budget,
                         std::int64_t block_size);

}  // namespace keyscope::adoption

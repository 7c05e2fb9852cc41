#pragma once

#include <cstdint>
#include <vector>

#include "capture/model/config.hpp"
#include "capture/model/transformer.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// Rows that each KV head's cache in a layer is made for: N + B where the layer evicts, every token where it
// does not, and no more than its window and a block where it has one. Heads that share their memory have so
// many on average. Empty where the layer has no keys.
//   block: tokens of the largest block, B; n_tokens: that pass through the model
//   budgets: N of each KV head; empty where the layer does not evict
//   dealt: all layers have N rows on average, what one of them holds less, as its window is short, others may
//   hold more, and memory for half as many again and a block more moves between them
std::vector<std::int64_t> cache_rows(const ModelConfig& config, int layer, std::int64_t block,
                                     std::int64_t n_tokens, const std::vector<std::int64_t>& budgets,
                                     bool dealt = false);
// Of a planned run, by its own budgets where the layer evicts.
std::vector<std::int64_t> cache_rows(const ModelConfig& config, const recording::RunPlan& run,
                                     std::int64_t n_prompt, int layer, bool evicts);

// Bytes of a layer's cache that is made for these rows of its KV heads, with all that is known of them;
// without rows of a recurrent state. ATen's arithmetic gives every KV head as many rows as the largest has.
//   in float64: without overflow, whatever a damaged configuration asks for
double layer_cache_bytes(const ModelConfig& config, int layer, const std::vector<std::int64_t>& rows,
                         std::int64_t element_bytes, Arithmetic arithmetic);

// Bytes of the moments of every query head's queries.
double moment_bytes(const ModelConfig& config);

// Bytes besides the weights that a run needs at its largest, every layer evicting if any does. ATen's
// arithmetic also holds tiles of attention's scores, and side by side the rows of heads that share memory.
struct MemoryNeed {
  std::int64_t cache_bytes = 0;  // keys and values
  std::int64_t block_bytes = 0;  // a block's activations, and what is recorded of it
};
// Of a run of which nothing is recorded.
MemoryNeed memory_need(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                       std::int64_t element_bytes, Arithmetic arithmetic);
// Of one of a plan's runs.
MemoryNeed memory_need(const ModelConfig& config, const recording::RecordPlan& plan,
                       const recording::RunPlan& run, std::int64_t element_bytes, Arithmetic arithmetic);

// Refuses a run, or a plan with one, that needs more than `available` bytes.
//   returns what the run needs
//   throws Error with both figures and, where there is one, the budget that would fit
MemoryNeed check_memory(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                        std::int64_t element_bytes, Arithmetic arithmetic, std::int64_t available);
void check_memory(const ModelConfig& config, const recording::RecordPlan& plan, std::int64_t element_bytes,
                  Arithmetic arithmetic, std::int64_t available);

// A count of bytes from float64; what no machine has is the largest that there is.
std::int64_t whole_bytes(double bytes);

}  // namespace keyscope::capture

#include "capture/inference/memory_need.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

std::int64_t block_tokens(const recording::RunPlan& run, std::int64_t n_prompt) {
  return std::min(run.block_size, n_prompt);
}

// Keys and values of one row in every layer and head.
std::int64_t row_bytes(const ModelConfig& config, std::int64_t element_bytes) {
  return std::int64_t{2} * config.n_layers * config.n_kv_heads * config.head_dim * element_bytes;
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// What to do about it, as the caches' own share allows.
std::string advice(std::int64_t free_for_caches, std::int64_t bytes_per_row, const recording::RunPlan& run,
                   std::int64_t block) {
  const std::int64_t budget = free_for_caches / bytes_per_row - block;
  if (budget >= 1 && run.budget == 0)
    return fmt::format("a policy with --budget {} would fit, or a shorter prompt", budget);
  if (budget >= 1 && budget < run.budget) return fmt::format("--budget {} would fit", budget);
  return "take a smaller --block, fewer --layers, or do not --record attention";
}

}  // namespace

std::int64_t cache_rows(const recording::RunPlan& run, std::int64_t n_prompt, bool evicts) {
  const std::int64_t all = run.max_tokens(n_prompt);
  if (!evicts || run.budget >= all) return all;
  return std::min(all, run.budget + block_tokens(run, n_prompt));
}

MemoryNeed memory_need(const ModelConfig& config, const recording::RecordPlan& plan,
                       const recording::RunPlan& run, std::int64_t element_bytes) {
  const std::int64_t n = block_tokens(run, plan.n_prompt());
  const std::int64_t rows = cache_rows(run, plan.n_prompt(), run.budget > 0);
  MemoryNeed need;
  need.cache_bytes = rows * row_bytes(config, element_bytes);
  // Queries, keys and values several times over (rotated, as float32, copied into the record), and the MLP.
  const std::int64_t projected = std::int64_t{config.n_heads + 2 * config.n_kv_heads} * config.head_dim;
  need.block_bytes = n * (4 * config.hidden_size + 3 * config.intermediate_size + 4 * projected) * 4;
  const auto n_recorded = static_cast<std::int64_t>(plan.layers.size());
  need.block_bytes += n * projected * 4 * n_recorded;
  if (plan.attention)
    need.block_bytes += n * config.n_heads * run.max_tokens(plan.n_prompt()) * 4 * (n_recorded + 2);
  if (plan.logits) need.block_bytes += 2 * plan.score_last * plan.vocab_size * 4;
  return need;
}

void check_memory(const ModelConfig& config, const recording::RecordPlan& plan, std::int64_t element_bytes,
                  std::int64_t available) {
  for (const recording::RunPlan& run : plan.runs) {
    const MemoryNeed need = memory_need(config, plan, run, element_bytes);
    if (need.cache_bytes + need.block_bytes <= available) continue;
    throw Error(
        fmt::format("run {}: its KV cache needs {:.2f} GiB and a block {:.2f} GiB of memory, and {:.2f} GiB "
                    "are available; {}",
                    run.name, gib(need.cache_bytes), gib(need.block_bytes), gib(available),
                    advice(available - need.block_bytes, row_bytes(config, element_bytes), run,
                           block_tokens(run, plan.n_prompt()))));
  }
}

}  // namespace keyscope::capture

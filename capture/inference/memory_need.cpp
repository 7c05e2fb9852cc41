#include "capture/inference/memory_need.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::capture {
namespace {

std::int64_t block_tokens(const recording::RunPlan& run, std::int64_t n_prompt) {
  return std::min(run.block_size, n_prompt);
}

// One row in every layer and head: key, value, position, and the attention it has received.
std::int64_t row_bytes(const ModelConfig& config, std::int64_t element_bytes) {
  constexpr std::int64_t kBookkeeping = sizeof(std::int32_t) + sizeof(double) + sizeof(std::int32_t);
  return std::int64_t{config.n_layers} * config.n_kv_heads *
         (std::int64_t{2} * config.head_dim * element_bytes + kBookkeeping);
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
  // In float64: without overflow, whatever a damaged configuration asks for.
  const auto n = static_cast<double>(block_tokens(run, plan.n_prompt()));
  const auto rows = static_cast<double>(cache_rows(run, plan.n_prompt(), run.budget > 0));
  MemoryNeed need;
  need.cache_bytes = whole_bytes(rows * static_cast<double>(row_bytes(config, element_bytes)));
  // Queries, keys and values several times over (rotated, as float32, copied into the record), and the MLP.
  const double projected = static_cast<double>(config.n_heads + 2 * config.n_kv_heads) * config.head_dim;
  double block = n * 4 *
                 (4 * static_cast<double>(config.hidden_size) +
                  3 * static_cast<double>(config.intermediate_size) + 4 * projected);
  const auto n_recorded = static_cast<double>(plan.layers.size());
  block += n * projected * 4 * n_recorded;
  if (plan.attention)
    block += n * config.n_heads * static_cast<double>(run.max_tokens(plan.n_prompt())) * 4 * (n_recorded + 2);
  if (plan.logits) block += 8 * static_cast<double>(plan.score_last) * static_cast<double>(plan.vocab_size);
  need.block_bytes = whole_bytes(block);
  return need;
}

std::int64_t whole_bytes(double bytes) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 4;  // some of them can be added
  return bytes < static_cast<double>(kMost) ? static_cast<std::int64_t>(bytes) : kMost;
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

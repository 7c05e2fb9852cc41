#include "app/adoption/cache_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "analysis/quantiles.hpp"

namespace keyscope::adoption {
namespace {

// Rows of one KV head in one layer: as many as may be seen, and no more than a budget leaves.
std::int64_t rows_kept(const capture::ModelConfig& config, int layer, std::int64_t n_tokens,
                       const results::Budget* budget, std::int64_t surplus) {
  std::int64_t rows = n_tokens;
  if (config.window(layer) > 0) rows = std::min(rows, config.window(layer) + surplus);
  if (budget != nullptr) rows = std::min(rows, budget->rows_for(n_tokens) + surplus);
  return rows;
}

// Over all layers.
std::int64_t sum_rows(const capture::ModelConfig& config, std::int64_t n_tokens,
                      const results::Budget* budget, std::int64_t surplus) {
  std::int64_t rows = 0;
  for (int layer = 0; layer < config.n_layers; ++layer)
    rows += rows_kept(config, layer, n_tokens, budget, surplus);
  return rows;
}

std::int64_t p95_of(std::span<const std::int64_t> lengths) {
  const std::vector<double> values(lengths.begin(), lengths.end());
  return std::llround(analysis::quantiles(values, std::array{0.95}).front());
}

}  // namespace

std::int64_t row_bytes(const capture::ModelConfig& config, std::int64_t element_bytes) {
  return std::int64_t{2} * config.n_kv_heads * config.head_dim * element_bytes;
}

CacheMemory cache_memory(const capture::ModelConfig& config, std::int64_t element_bytes,
                         std::span<const std::int64_t> lengths, const results::Budget* budget,
                         std::int64_t block_size) {
  if (lengths.empty()) throw InvalidInput("prompt lengths: none are given; expected at least one");
  const auto bytes = static_cast<double>(row_bytes(config, element_bytes));
  const auto n_prompts = static_cast<double>(lengths.size());
  CacheMemory memory;
  for (const std::int64_t length : lengths) {
    if (length < 1) throw InvalidInput(fmt::format("prompt lengths: {} tokens; expected 1 or more", length));
    const auto kept = static_cast<double>(sum_rows(config, length, budget, 0));
    memory.occupancy += kept / static_cast<double>(sum_rows(config, length, nullptr, 0)) / n_prompts;
    memory.mean_bytes += kept * bytes / n_prompts;
  }
  memory.p95_length = p95_of(lengths);
  memory.p95_bytes = sum_rows(config, memory.p95_length, budget, 0) * row_bytes(config, element_bytes);
  memory.p95_peak_bytes =
      sum_rows(config, memory.p95_length, budget, block_size) * row_bytes(config, element_bytes);
  return memory;
}

}  // namespace keyscope::adoption

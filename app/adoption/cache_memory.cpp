#include "app/adoption/cache_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/quantiles.hpp"

namespace keyscope::adoption {
namespace {

// Rows of one KV head in one layer that may stay: a window's and a budget's, if there are any.
std::int64_t most_rows(const capture::ModelConfig& config, int layer, std::int64_t n_tokens,
                       const results::Budget* budget) {
  std::int64_t rows = n_tokens;
  if (config.window(layer) > 0) rows = std::min(rows, config.window(layer));
  if (budget != nullptr) rows = std::min(rows, budget->rows_for(n_tokens));
  return rows;
}

// The most rows while blocks come in, each before its surplus goes.
std::int64_t peak_rows(std::int64_t most, std::int64_t n_tokens, std::int64_t block_size) {
  std::int64_t peak = 0;
  for (std::int64_t begin = 0, block = 0; begin < n_tokens; begin += block) {
    block = std::min(block_size, n_tokens - begin);
    peak = std::max(peak, std::min(most, begin) + block);
  }
  return peak;
}

// Over all layers, after a prompt.
std::int64_t sum_rows(const capture::ModelConfig& config, std::int64_t n_tokens,
                      const results::Budget* budget) {
  std::int64_t rows = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) rows += most_rows(config, layer, n_tokens, budget);
  return rows;
}

// Likewise, at the peak.
std::int64_t sum_peak_rows(const capture::ModelConfig& config, std::int64_t n_tokens,
                           const results::Budget* budget, std::int64_t block_size) {
  std::int64_t rows = 0;
  for (int layer = 0; layer < config.n_layers; ++layer)
    rows += peak_rows(most_rows(config, layer, n_tokens, budget), n_tokens, block_size);
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
    const auto kept = static_cast<double>(sum_rows(config, length, budget));
    memory.occupancy += kept / static_cast<double>(sum_rows(config, length, nullptr)) / n_prompts;
    memory.mean_bytes += kept * bytes / n_prompts;
  }
  memory.p95_length = p95_of(lengths);
  memory.p95_bytes = sum_rows(config, memory.p95_length, budget) * row_bytes(config, element_bytes);
  memory.p95_peak_bytes =
      sum_peak_rows(config, memory.p95_length, budget, block_size) * row_bytes(config, element_bytes);
  return memory;
}

}  // namespace keyscope::adoption

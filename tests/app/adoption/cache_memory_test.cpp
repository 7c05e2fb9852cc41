#include "app/adoption/cache_memory.hpp"

#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::adoption {
namespace {

capture::ModelConfig four_layers() {
  capture::ModelConfig config;
  config.n_layers = 4;
  config.n_heads = 8;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

constexpr std::int64_t kRow = 2 * 2 * 16 * 2;  // key and value, two heads of 16, two bytes each

TEST(CacheMemory, OfTheFullCacheIsEveryToken) {
  const std::array<std::int64_t, 3> lengths{100, 200, 300};
  const auto memory = cache_memory(four_layers(), 2, lengths, nullptr, 64);
  EXPECT_DOUBLE_EQ(memory.occupancy, 1);
  EXPECT_DOUBLE_EQ(memory.mean_bytes, 200.0 * 4 * kRow);
  EXPECT_EQ(memory.p95_length, 290);
  EXPECT_EQ(memory.p95_bytes, 290 * 4 * kRow);
  EXPECT_EQ(memory.p95_peak_bytes, memory.p95_bytes);
}

// By hand: of 100, 200 and 300 tokens, 150 rows keep 1, 3/4 and 1/2 (Table 9 of the paper).
TEST(CacheMemory, KeepsNoMoreThanTheBudget) {
  const std::array<std::int64_t, 3> lengths{100, 200, 300};
  const results::Budget budget{150, 0};
  const auto memory = cache_memory(four_layers(), 2, lengths, &budget, 64);
  EXPECT_DOUBLE_EQ(memory.occupancy, (1 + 0.75 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(memory.mean_bytes, (100 + 150 + 150) / 3.0 * 4 * kRow);
  EXPECT_EQ(memory.p95_bytes, 150 * 4 * kRow);
  EXPECT_EQ(memory.p95_peak_bytes, (150 + 64) * 4 * kRow);
}

TEST(CacheMemory, AShareFollowsEachPrompt) {
  const std::array<std::int64_t, 2> lengths{100, 400};
  const results::Budget budget{0, 0.25};
  const auto memory = cache_memory(four_layers(), 2, lengths, &budget, 64);
  EXPECT_DOUBLE_EQ(memory.occupancy, 0.25);
  EXPECT_DOUBLE_EQ(memory.mean_bytes, (25 + 100) / 2.0 * 4 * kRow);
}

TEST(CacheMemory, NeverPeaksAboveThePrompt) {
  const std::array<std::int64_t, 1> lengths{100};
  const results::Budget budget{90, 0};
  EXPECT_EQ(cache_memory(four_layers(), 2, lengths, &budget, 64).p95_peak_bytes, 100 * 4 * kRow);
}

// Blocks of 64 and 36: the second comes in when 20 rows are left of the first.
TEST(CacheMemory, PeaksWhereABlockEnds) {
  const std::array<std::int64_t, 1> lengths{100};
  const results::Budget budget{20, 0};
  const auto peak = [&](std::int64_t block) {
    return cache_memory(four_layers(), 2, lengths, &budget, block).p95_peak_bytes / (4 * kRow);
  };
  EXPECT_EQ(peak(64), 64);
  EXPECT_EQ(peak(50), 70);
  EXPECT_EQ(peak(std::numeric_limits<std::int64_t>::max()), 100);
}

TEST(CacheMemory, ABudgetOfMoreThanThereIsIsTheFullCache) {
  const std::array<std::int64_t, 1> lengths{100};
  const results::Budget budget{std::numeric_limits<std::int64_t>::max(), 0};
  EXPECT_EQ(cache_memory(four_layers(), 2, lengths, &budget, 64).p95_peak_bytes, 100 * 4 * kRow);
}

// Two of four layers see 64 tokens: of 128 they keep 64 anyway, which no policy saves.
TEST(CacheMemory, ASlidingWindowIsNoSaving) {
  auto config = four_layers();
  config.layer_windows = {64, 0, 64, 0};
  const std::array<std::int64_t, 1> lengths{128};
  EXPECT_EQ(cache_memory(config, 2, lengths, nullptr, 16).p95_bytes, (64 + 128 + 64 + 128) * kRow);
  const results::Budget budget{96, 0};
  const auto memory = cache_memory(config, 2, lengths, &budget, 16);
  EXPECT_EQ(memory.p95_bytes, (64 + 96 + 64 + 96) * kRow);
  EXPECT_EQ(memory.p95_peak_bytes, (80 + 112 + 80 + 112) * kRow);
  EXPECT_DOUBLE_EQ(memory.occupancy, 320.0 / 384);
}

TEST(CacheMemory, NeedsPrompts) {
  EXPECT_THROW(cache_memory(four_layers(), 2, {}, nullptr, 64), InvalidInput);
  const std::array<std::int64_t, 2> lengths{10, 0};
  EXPECT_THROW(cache_memory(four_layers(), 2, lengths, nullptr, 64), InvalidInput);
}

}  // namespace
}  // namespace keyscope::adoption

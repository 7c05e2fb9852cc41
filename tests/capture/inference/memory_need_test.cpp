#include "capture/inference/memory_need.hpp"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kGiB = 1 << 30;

recording::RunPlan run_of(std::int64_t budget, std::int64_t block_size, std::int64_t generate = 0) {
  recording::RunPlan run;
  run.name = budget > 0 ? "keydiff" : "none";
  run.budget = budget;
  run.block_size = block_size;
  run.max_generated = generate;
  return run;
}

recording::RunPlan dealt_among_heads(recording::RunPlan run) {
  run.policy = "keydiff";
  run.parameters = R"({"split": "adakv"})";
  return run;
}

// A shape like Llama 3.2 3B's.
ModelConfig large_model() {
  ModelConfig config;
  config.n_layers = 28;
  config.n_heads = 24;
  config.n_kv_heads = 8;
  config.head_dim = 128;
  config.hidden_size = 3072;
  config.intermediate_size = 8192;
  return config;
}

recording::RecordPlan plan_of(std::int64_t n_prompt, const recording::RunPlan& run) {
  recording::RecordPlan plan;
  plan.prompt.id.resize(n_prompt);
  plan.runs = {run};
  return plan;
}

std::string complaint(const recording::RecordPlan& plan, std::int64_t available) {
  try {
    check_memory(large_model(), plan, 2, Arithmetic::kKernels, available);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::int64_t rows(const recording::RunPlan& run, std::int64_t n_prompt, bool evicts) {
  const auto heads = cache_rows(large_model(), run, n_prompt, 3, evicts);
  EXPECT_EQ(heads.size(), 8U);
  return heads.front();
}

TEST(MemoryNeed, AtensHeadsAreAsLongAsTheLongest) {
  constexpr double kRowBytes =
      2 * 128 * 2 + 4 + 8 + 4;  // key, value; position, attention received, from how many
  std::vector<std::int64_t> rows(8, 10);
  rows[3] = 30;
  EXPECT_EQ(layer_cache_bytes(large_model(), 0, rows, 2, Arithmetic::kKernels), (7 * 10 + 30) * kRowBytes);
  EXPECT_EQ(layer_cache_bytes(large_model(), 0, rows, 2, Arithmetic::kAten), 8 * 30 * kRowBytes);
}

TEST(CacheRows, AreTheBudgetAndOneBlockOrEveryToken) {
  EXPECT_EQ(rows(run_of(256, 64), 1000, true), 320);
  EXPECT_EQ(rows(run_of(256, 64), 1000, false), 1000);
  EXPECT_EQ(rows(run_of(0, 64, 5), 1000, false), 1004);
  EXPECT_EQ(rows(run_of(256, 64), 300, true), 300);
  EXPECT_EQ(rows(run_of(256, 640), 100, true), 100);
  EXPECT_EQ(rows(run_of(256, 640, 300), 100, true), 356);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(rows(run_of(kMost, kMost), 100, true), 100);
}

TEST(CacheRows, AreThoseOfEachHeadWhereBudgetsDiffer) {
  recording::RunPlan run = run_of(300, 64);
  for (int i = 0; i < 28 * 8; ++i) run.budgets.push_back(i == 3 * 8 + 1 ? 300 : 100);
  const auto heads = cache_rows(large_model(), run, 1000, 3, true);
  EXPECT_EQ(heads[0], 164);
  EXPECT_EQ(heads[1], 364);
}

TEST(CacheRows, OfHeadsThatAreDealtRowsAreNoMoreInAll) {
  EXPECT_EQ(rows(dealt_among_heads(run_of(256, 64)), 10000, true), 320);
  EXPECT_EQ(rows(dealt_among_heads(run_of(256, 64)), 300, true), 300);
}

TEST(CacheRows, OfALayerWithAWindowAreNoMoreThanItAndABlock) {
  ModelConfig config = large_model();
  config.layer_windows.assign(28, 0);
  config.layer_windows[3] = 500;
  EXPECT_EQ(cache_rows(config, run_of(0, 64), 1000, 3, false).front(), 564);
  EXPECT_EQ(cache_rows(config, run_of(0, 64), 1000, 2, false).front(), 1000);
  EXPECT_EQ(cache_rows(config, run_of(256, 64), 1000, 3, true).front(), 320);
}

TEST(CacheRows, OfAnOracleAreEveryToken) {
  recording::RunPlan run = run_of(256, 64);
  run.oracle = true;
  EXPECT_EQ(rows(run, 1000, true), 1000);
}

TEST(MemoryNeed, OfTheCacheIsExact) {
  const auto plan = plan_of(1000, run_of(0, 128));
  EXPECT_EQ(memory_need(large_model(), plan, plan.runs[0], 2, Arithmetic::kKernels).cache_bytes,
            1000LL * 28 * 8 * (2 * 128 * 2 + 4 + 8 + 4));
}

// Heads with budgets of their own lie in one tensor there.
TEST(MemoryNeed, UnderAtenEveryHeadHasTheRowsOfTheLargest) {
  const auto even = plan_of(1000, run_of(400, 128));
  recording::RunPlan run = run_of(400, 128);
  for (int i = 0; i < 28 * 8; ++i) run.budgets.push_back(i % 8 == 0 ? 400 : 100);
  const auto uneven = plan_of(1000, run);
  const auto need = [](const recording::RecordPlan& plan, Arithmetic arithmetic) {
    return memory_need(large_model(), plan, plan.runs[0], 2, arithmetic);
  };
  EXPECT_EQ(need(uneven, Arithmetic::kAten).cache_bytes, need(even, Arithmetic::kKernels).cache_bytes);
  EXPECT_LT(need(uneven, Arithmetic::kKernels).cache_bytes, need(even, Arithmetic::kKernels).cache_bytes);
  // Five tensors of scores of 24 heads' 128 queries on 1000 rows, and three of 8 KV heads' keys in float64.
  EXPECT_EQ(need(even, Arithmetic::kAten).block_bytes - need(even, Arithmetic::kKernels).block_bytes,
            5 * 4 * 24 * 128 * 1000 + 3 * 8 * 8 * 128 * 1000);
}

// Attention and the policy each have all keys and values of a layer side by side, as long as the longest.
TEST(MemoryNeed, UnderAtenHeadsThatShareTheirMemoryAreAsLongAsTheLongestForABlock) {
  const auto need = [](const recording::RunPlan& run, std::int64_t n_prompt, Arithmetic arithmetic) {
    return memory_need(large_model(), plan_of(n_prompt, run), run, 2, arithmetic);
  };
  const recording::RunPlan uniform = run_of(100, 128), dealt = dealt_among_heads(uniform);
  for (const Arithmetic arithmetic : {Arithmetic::kKernels, Arithmetic::kAten})
    EXPECT_EQ(need(dealt, 10000, arithmetic).cache_bytes, need(uniform, 10000, arithmetic).cache_bytes);
  EXPECT_EQ(need(dealt, 10000, Arithmetic::kKernels).block_bytes,
            need(uniform, 10000, Arithmetic::kKernels).block_bytes);
  const auto more = [&](std::int64_t n_prompt) {
    return need(dealt, n_prompt, Arithmetic::kAten).block_bytes -
           need(uniform, n_prompt, Arithmetic::kAten).block_bytes;
  };
  EXPECT_EQ(more(1000), 4 * 8 * 1000 * 128 * 2);  // one head may have them all
  EXPECT_EQ(more(10000), 4 * 8 * (8 * (100 + 128)) * 128 * 2);
}

TEST(MemoryNeed, RefusesWithBothFiguresAndTheBudgetThatFits) {
  const auto full = plan_of(131072, run_of(0, 128));
  EXPECT_EQ(complaint(full, 16 * kGiB), "");
  const std::string said = complaint(full, 8 * kGiB);
  EXPECT_THAT(said, AllOf(HasSubstr("14.44 GiB"), HasSubstr("8.00 GiB"), HasSubstr("--budget ")));
  const std::int64_t budget = std::stoll(said.substr(said.find("--budget ") + 9));
  EXPECT_EQ(complaint(plan_of(131072, run_of(budget, 128)), 8 * kGiB), "");
  EXPECT_THAT(complaint(plan_of(131072, run_of(budget + 1, 128)), 8 * kGiB), HasSubstr("--budget "));
}

TEST(MemoryNeed, CountsAttentionThatIsRecorded) {
  auto plan = plan_of(16384, run_of(256, 128));
  EXPECT_EQ(complaint(plan, 4 * kGiB), "");
  plan.attention = true;
  for (int layer = 0; layer < 28; ++layer) plan.layers.push_back(layer);
  EXPECT_THAT(complaint(plan, 4 * kGiB), HasSubstr("--record attention"));
}

}  // namespace
}  // namespace keyscope::capture

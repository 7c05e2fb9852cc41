#include "capture/inference/completion_memory.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kBlock = 8;

// A row of a KV head: key and value in two bytes an element, position (4), attention received (8) and from
// how many queries (4).
constexpr std::int64_t kRow = 2 * 16 * 2 + 4 + 8 + 4;
constexpr std::int64_t kHeads = 3 * 2;  // layers × KV heads

ModelConfig small_model() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

CompletionRequest request(const Ids& ids, const char* policy, std::int64_t budget) {
  return {.prompt_ids = ids, .policy = analysis::parse_policy(policy), .budget = budget};
}

CompletionMemory memory_of(const std::vector<CompletionRequest>& requests) {
  const CompletionTree tree({kBlock, 0}, requests);
  return completion_memory(small_model(), kBlock, tree, 2, Arithmetic::kKernels);
}

Ids ids(std::int64_t n) { return Ids(static_cast<std::size_t>(n), 1); }

TEST(CompletionMemory, OfOneRunIsItsCache) {
  const Ids prompt = ids(100);
  const auto memory = memory_of({request(prompt, "none", 0)});
  EXPECT_EQ(memory.cache_bytes, 100 * kHeads * kRow);
  EXPECT_EQ(memory.n_runs, 1);
}

TEST(CompletionMemory, CountsWhatIsGenerated) {
  const Ids prompt = ids(100);
  auto generating = request(prompt, "none", 0);
  generating.continuation.max_new_tokens = 11;  // the last is never fed back
  EXPECT_EQ(memory_of({generating}).cache_bytes, 110 * kHeads * kRow);
}

// The full cache waits while each policy's run, one after another, goes on in rows for its budget and a
// block.
TEST(CompletionMemory, PoliciesOfOnePromptAreAliveOneAtATime) {
  const Ids prompt = ids(100);
  const auto memory = memory_of({request(prompt, "none", 0), request(prompt, "sink", 20),
                                 request(prompt, "keydiff", 20), request(prompt, "l2norm", 40)});
  EXPECT_EQ(memory.cache_bytes, (100 + 40 + kBlock) * kHeads * kRow);
  EXPECT_EQ(memory.n_runs, 2);
}

TEST(CompletionMemory, EveryPartingAboveABlockHoldsARun) {
  const Ids longest = ids(64);
  Ids second = longest, third = longest;
  second[40] = 2;  // parts from the others at 40
  third[48] = 2;   // and this one at 48
  const auto memory =
      memory_of({request(longest, "none", 0), request(second, "none", 0), request(third, "none", 0)});
  EXPECT_EQ(memory.cache_bytes, 3 * 64 * kHeads * kRow);
  EXPECT_EQ(memory.n_runs, 3);
  // Runs that evict hold less.
  const auto evicting =
      memory_of({request(longest, "none", 0), request(longest, "sink", 16), request(second, "sink", 16)});
  EXPECT_EQ(evicting.cache_bytes, (64 + 2 * (16 + kBlock)) * kHeads * kRow);
  EXPECT_EQ(evicting.n_runs, 3);
}

// Of tokens 16 to 23, the last query's weights (4 bytes) and two windows' sums (8 each) of 4 query heads.
TEST(CompletionMemory, CountsWhatWaitsForEvictionsOfASharedBlock) {
  const Ids prompt = ids(24);
  const auto memory = memory_of({request(prompt, "tova", 16), request(prompt, "snapkv", 16),
                                 request(prompt, "snapkv:window=4", 16), request(prompt, "h2o", 16)});
  EXPECT_EQ(memory.cache_bytes, 2 * 24 * kHeads * kRow + 24 * (4 + 2 * 8) * 4 * 3);
}

TEST(CompletionMemory, TooMuchIsRefusedSayingWhatWouldNeedLess) {
  constexpr std::int64_t kGiB = 1 << 30;
  EXPECT_NO_THROW(check_completion_memory({3 * kGiB, 4}, kGiB, 4 * kGiB));
  try {
    check_completion_memory({3 * kGiB, 4}, kGiB, 4 * kGiB - 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("4 runs are in memory at once"), HasSubstr("3.00 GiB"),
                                    HasSubstr("fewer policies"), HasSubstr("shorter prompts")));
  }
}

}  // namespace
}  // namespace keyscope::capture

#include "capture/inference/completion_tree.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "capture/inference/memory_need.hpp"

namespace keyscope::capture {

// The walk, read as what it does step by step.

namespace {

using ::testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

// Writes down every step, and that the stack is kept.
class WrittenSteps : public CompletionSteps {
 public:
  void begin(const StateRule& rule) override { add("begin", rule); }
  void fork(const StateRule& rule) override { add("fork", rule); }
  void follow(const StateRule& rule) override {
    EXPECT_GT(n_runs_, 0);
    now_ = rule.budget;
  }
  void end() override { EXPECT_EQ(n_runs_, 0); }
  void read(const SharedBlock& block) override {
    std::vector<std::int64_t> open;
    for (const StateRule& rule : block.open) open.push_back(rule.budget);
    steps.push_back(fmt::format("read {}+{} for {}{}", block.first_position, block.ids.size(), block.requests,
                                open.empty() ? "" : fmt::format(", then {}", open)));
  }
  void generate(const RequestIndices& requests) override {
    steps.push_back(fmt::format("generate N={} for {}", now_, requests));
    --n_runs_;
  }

  std::vector<std::string> steps;
  int n_runs() const { return n_runs_; }

 private:
  void add(const char* step, const StateRule& rule) {
    steps.push_back(fmt::format("{} N={} rows={}", step, rule.budget, rule.most_tokens));
    now_ = rule.budget;
    ++n_runs_;
  }

  int n_runs_ = 0;
  std::int64_t now_ = 0;
};

std::vector<std::string> walked(const std::vector<CompletionRequest>& requests) {
  WrittenSteps steps;
  ModelConfig config;
  config.n_layers = config.n_kv_heads = 2;
  CompletionTree(config, {.block_size = 4, .seed = 0}, requests).walk(steps);
  EXPECT_EQ(steps.n_runs(), 0);
  return steps.steps;
}

CompletionRequest request(const Ids& ids, const char* policy, std::int64_t budget) {
  return {.prompt_ids = ids, .policy = analysis::parse_policy(policy), .budget = budget};
}

const Ids kTen{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

TEST(CompletionTree, OnePromptIsReadBlockByBlock) {
  EXPECT_THAT(walked({request(kTen, "none", 0)}),
              ElementsAre("begin N=0 rows=10", "read 0+4 for [0]", "read 4+4 for [0]", "read 8+2 for [0]",
                          "generate N=0 for [0]"));
}

// Tokens 4 to 7 are read once for all; after them both evict, and what evicts nothing goes last.
TEST(CompletionTree, PoliciesShareTheBlockAfterWhichTheyFirstEvict) {
  EXPECT_THAT(
      walked({request(kTen, "none", 0), request(kTen, "sink", 5), request(kTen, "keydiff", 6)}),
      ElementsAre("begin N=0 rows=10", "read 0+4 for [0, 1, 2]", "read 4+4 for [0, 1, 2], then [6, 5]",
                  "fork N=6 rows=10", "read 8+2 for [2]", "generate N=6 for [2]",  //
                  "fork N=5 rows=10", "read 8+2 for [1]", "generate N=5 for [1]",  //
                  "read 8+2 for [0]", "generate N=0 for [0]"));
}

TEST(CompletionTree, OneAloneNeedsNoCopy) {
  EXPECT_THAT(walked({request(kTen, "sink", 5)}),
              ElementsAre("begin N=0 rows=10", "read 0+4 for [0]", "read 4+4 for [0], then [5]",
                          "read 8+2 for [0]", "generate N=5 for [0]"));
}

TEST(CompletionTree, APolicyThatNeverEvictsIsTheFullCache) {
  EXPECT_THAT(walked({request(kTen, "none", 0), request(kTen, "sink", 10)}),
              ElementsAre("begin N=0 rows=10", "read 0+4 for [0, 1]", "read 4+4 for [0, 1]",
                          "read 8+2 for [0, 1]", "generate N=0 for [0, 1]"));
}

TEST(CompletionTree, PromptsPartWhereTheirIdsDo) {
  Ids other = kTen;
  other[5] = 0;
  const Ids prefix(kTen.begin(), kTen.begin() + 4);
  EXPECT_THAT(
      walked({request(kTen, "none", 0), request(other, "none", 0), request(prefix, "none", 0)}),
      ElementsAre("begin N=0 rows=10", "read 0+4 for [0, 1, 2]",                                       //
                  "fork N=0 rows=4", "generate N=0 for [2]",                                           //
                  "fork N=0 rows=10", "read 4+4 for [1]", "read 8+2 for [1]", "generate N=0 for [1]",  //
                  "read 4+4 for [0]", "read 8+2 for [0]", "generate N=0 for [0]"));
}

TEST(CompletionTree, WhatIsGeneratedMayEvictThoughThePromptDidNot) {
  auto full = request(kTen, "none", 0), evicting = request(kTen, "sink", 10);
  full.continuation.max_new_tokens = evicting.continuation.max_new_tokens = 3;
  EXPECT_THAT(walked({full, evicting, full}),
              ElementsAre("begin N=0 rows=12", "read 0+4 for [0, 1, 2]", "read 4+4 for [0, 1, 2]",
                          "read 8+2 for [0, 1, 2]", "fork N=10 rows=12", "generate N=10 for [1]",
                          "generate N=0 for [0, 2]"));
}

TEST(CompletionTree, NothingIsDoneForNobody) { EXPECT_THAT(walked({}), ElementsAre()); }

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBlock = 8;

// A row of a KV head: key and value in two bytes an element, position (4), attention received (8) and from
// how many queries (4).
constexpr std::int64_t kRow = 64 + 4 + 8 + 4;
constexpr std::int64_t kHeads = 6;  // layers × KV heads

ModelConfig small_model() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

CompletionMemory memory_of(const std::vector<CompletionRequest>& requests, std::size_t together = 1) {
  const ModelConfig config = small_model();
  const CompletionTree tree(config, {kBlock, 0}, requests);
  return completion_memory(config, kBlock, tree, 2, Arithmetic::kKernels, together);
}

Ids ids(std::int64_t n) { return Ids(n, 1); }

TEST(CompletionMemory, OfOneRunIsItsCache) {
  const Ids prompt = ids(100);
  const auto memory = memory_of({request(prompt, "none", 0)});
  EXPECT_EQ(memory.cache_bytes, 100 * kHeads * kRow);
  EXPECT_EQ(memory.n_runs, 1);
}

TEST(CompletionMemory, CountsTheMomentsOfQueriesThatAPolicyLooksAt) {
  const Ids prompt = ids(100);
  const auto plain = memory_of({request(prompt, "keydiff", 20)}),
             looking = memory_of({request(prompt, "expected", 20)});
  EXPECT_EQ(looking.cache_bytes - plain.cache_bytes, static_cast<std::int64_t>(moment_bytes(small_model())));
  EXPECT_GT(moment_bytes(small_model()), 0);
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

// Those that generate in one pass are alive at once: the full cache waits for three policies, then goes on
// itself as a fourth.
TEST(CompletionMemory, RunsThatGenerateTogetherWaitForEachOther) {
  const Ids prompt = ids(100);
  const std::vector<CompletionRequest> requests{request(prompt, "none", 0), request(prompt, "sink", 20),
                                                request(prompt, "keydiff", 20),
                                                request(prompt, "random", 20)};
  const auto two = memory_of(requests, 2), four = memory_of(requests, 4);
  EXPECT_EQ(two.cache_bytes, (100 + 2 * (20 + kBlock)) * kHeads * kRow);
  EXPECT_EQ(two.n_runs, 3);
  EXPECT_EQ(four.cache_bytes, (100 + 3 * (20 + kBlock)) * kHeads * kRow);
  EXPECT_EQ(four.n_runs, 4);
}

TEST(CompletionMemory, EveryPartingAboveABlockHoldsARun) {
  const Ids longest = ids(64);
  Ids second = longest, third = longest;
  second[40] = 2;  // parts from the others at 40
  third[48] = 2;   // and this one at 48
  const auto memory =
      memory_of({request(longest, "none", 0), request(second, "none", 0), request(third, "none", 0)});
  EXPECT_EQ(memory.cache_bytes, 3 * (64 * kHeads * kRow));
  EXPECT_EQ(memory.n_runs, 3);
  // Runs that evict hold less.
  const auto evicting =
      memory_of({request(longest, "none", 0), request(longest, "sink", 16), request(second, "sink", 16)});
  EXPECT_EQ(evicting.cache_bytes, (64 + 2 * (16 + kBlock)) * kHeads * kRow);
  EXPECT_EQ(evicting.n_runs, 3);
}

// Of tokens 16 to 23, the last query's weights (4 bytes) and two windows' sums (8 each) of 4 query heads.
TEST(CompletionMemory, CountsWhatWaitsForEvictionsOfASharedBlock) {
  constexpr std::int64_t kLayers = 3, kQueryHeads = 4, kTokens = 24;
  constexpr std::int64_t kWaiting = kTokens * (4 + 2 * 8) * kQueryHeads * kLayers;
  const Ids prompt = ids(kTokens);
  const auto memory = memory_of({request(prompt, "tova", 16), request(prompt, "snapkv", 16),
                                 request(prompt, "snapkv:window=4", 16), request(prompt, "h2o", 16)});
  EXPECT_EQ(memory.cache_bytes, 2 * (24 * kHeads * kRow) + kWaiting);
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

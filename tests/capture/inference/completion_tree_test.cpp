// The walk, read as what it does step by step.

#include "capture/inference/completion_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"

namespace keyscope::capture {
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
  void end() override { --n_runs_; }
  void read(const SharedBlock& block) override {
    std::vector<std::int64_t> open;
    for (const StateRule& rule : block.open) open.push_back(rule.budget);
    steps.push_back(fmt::format("read {}+{} for {}{}", block.first_position, block.ids.size(), block.requests,
                                open.empty() ? "" : fmt::format(", then {}", open)));
  }
  void generate(const RequestIndices& requests) override {
    steps.push_back(fmt::format("generate N={} for {}", now_, requests));
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
  CompletionTree({.block_size = 4, .seed = 0}, requests).walk(steps);
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

}  // namespace
}  // namespace keyscope::capture

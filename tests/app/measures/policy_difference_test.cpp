// What two runs keep, and what went with it, against the plain sums of one token's column of attention.

#include "app/measures/policy_difference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/measures/attention_weights.hpp"
#include "base/errors.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::measures {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kFull = 0, kA = 1, kB = 2;

class Differences : public ::testing::TestWithParam<bool> {  // whether attention was recorded
 protected:
  Differences() {
    capture::CaptureOptions options = test::full_cache_options();
    options.policies = test::policies({"none", "keydiff", "sink"});
    options.budget = 12;
    options.record_attention = GetParam();
    recording_ = test::run_in_memory(test::tiny_model(), options).recording;
    info_ = recording_->info();
  }

  PolicyDifference of(const std::vector<HeadSelection>& heads, std::int64_t block = -1) const {
    return policy_difference(*recording_, kA, kB, heads, block, true, nullptr, not_cancelled_);
  }

  std::shared_ptr<recording::Recording> recording_;
  std::shared_ptr<const recording::RecordingInfo> info_;
  const std::atomic<bool> not_cancelled_ = false;
};

TEST_P(Differences, AreWhatEachRunKeepsAlone) {
  const PolicyDifference difference = of({{kA, 1, 1}}, 2);
  ASSERT_EQ(difference.n_seen, 48);
  const auto a = recording_->trace(kA, 1, 1).evicted_at, b = recording_->trace(kB, 1, 1).evicted_at;
  const auto kept = [](std::int32_t gone) { return gone < 0 || gone > 2; };
  std::int64_t n_only_a = 0, n_both = 0;
  for (std::int64_t token = 0; token < 48; ++token) {
    const bool by_a = kept(a[token]), by_b = kept(b[token]);
    n_only_a += by_a && !by_b ? 1 : 0;
    n_both += by_a && by_b ? 1 : 0;
    EXPECT_EQ(difference.kept[token], by_a   ? (by_b ? KeptBy::kBoth : KeptBy::kOnlyA)
                                      : by_b ? KeptBy::kOnlyB
                                             : KeptBy::kNeither)
        << token;
  }
  EXPECT_EQ(difference.n_only_a, n_only_a);
  EXPECT_EQ(difference.n_both, n_both);
  EXPECT_EQ(difference.n_only_b, n_only_a) << "equal budgets";
  EXPECT_EQ(std::ssize(difference.tokens), 2 * n_only_a);
  EXPECT_GT(n_only_a, 0);
}

TEST_P(Differences, TheAttentionIsThatOfTheTokensColumn) {
  const PolicyDifference difference = of({{kA, 0, 1}});
  ASSERT_FALSE(difference.tokens.empty());
  double before = std::numeric_limits<double>::infinity();
  for (const DifferingToken& token : difference.tokens) {
    const int loser = token.kept_by == KeptBy::kOnlyA ? kB : kA;
    const std::int32_t gone = recording_->trace(loser, 0, 1).evicted_at[token.position];
    EXPECT_EQ(token.evicted_at, gone);
    const std::int64_t until = recording::tokens_seen(info_->runs[loser], gone);
    double received = 0, afterwards = 0;
    const auto column =
        attention_column(*recording_, {kFull, 0, 1}, token.position, 0, info_->n_prompt(), not_cancelled_);
    for (std::size_t query = 0; query < column.size(); ++query)
      if (!std::isnan(column[query])) (std::int64_t(query) < until ? received : afterwards) += column[query];
    EXPECT_NEAR(*token.received, received, 1e-5);
    EXPECT_NEAR(*token.afterwards, afterwards, 1e-5);
    EXPECT_LE(*token.afterwards, before) << "what was lost most comes first";
    before = *token.afterwards;
  }
}

TEST_P(Differences, OfSeveralHeadsAreTheSumOfEach) {
  const std::vector<HeadSelection> heads{{kA, 0, 0}, {kA, 0, 1}, {kA, 1, 0}, {kA, 1, 1}};
  const PolicyDifference all = of(heads);
  EXPECT_TRUE(all.kept.empty());
  double lost = 0, sum = 0;
  std::int64_t n_only_b = 0;
  int n_heads = 0;
  for (const DifferingToken& token : all.tokens) {
    lost += *token.afterwards;
    n_heads += token.n_heads;
    EXPECT_FALSE(token.evicted_at);
  }
  for (const HeadSelection& head : heads) {
    const PolicyDifference one = of({head});
    n_only_b += one.n_only_b;
    for (const DifferingToken& token : one.tokens) sum += *token.afterwards;
  }
  EXPECT_EQ(all.n_only_b, n_only_b);
  EXPECT_EQ(n_heads, all.n_only_a + all.n_only_b);
  EXPECT_NEAR(lost, sum, 1e-9);
}

TEST_P(Differences, AsCsvHaveALineEach) {
  const PolicyDifference difference = of({{kA, 0, 0}, {kA, 0, 1}});
  const std::string csv = difference_csv(*info_, difference, kA, kB);
  EXPECT_THAT(csv, StartsWith("layer,kv_head,position,token,kept_by,evicted_at,margin,attention_before,"
                              "attention_after\n0,"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), std::ssize(difference.rows) + 1);
  EXPECT_THAT(csv,
              AllOf(HasSubstr(",keydiff,"), HasSubstr(",sink,"), HasSubstr("\n0,0,"), HasSubstr("\n0,1,")));
}

// Of every head by itself, however many were asked for; those of a token add up to what is printed of it.
TEST_P(Differences, HaveARowForEachHead) {
  const PolicyDifference both = of({{kA, 0, 0}, {kA, 0, 1}});
  std::map<std::pair<std::int32_t, KeptBy>, double> after;
  double last = std::numeric_limits<double>::infinity();
  for (const DifferingRow& row : both.rows) {
    const int loser = row.kept_by == KeptBy::kOnlyA ? kB : kA;
    const auto trace = recording_->trace(loser, row.layer, row.kv_head);
    EXPECT_EQ(row.evicted_at, trace.evicted_at[row.position]);
    const float margin = trace.evicted_margin[row.position];
    EXPECT_EQ(row.margin.has_value(), !std::isnan(margin));
    EXPECT_EQ(row.margin.value_or(0), std::isnan(margin) ? 0 : margin);
    EXPECT_LE(*row.attention_after, last);
    last = *row.attention_after;
    after[{row.position, row.kept_by}] += *row.attention_after;
  }
  EXPECT_EQ(std::ssize(both.rows), both.n_only_a + both.n_only_b);
  for (const DifferingToken& token : both.tokens)
    EXPECT_NEAR(*token.afterwards, (after[{token.position, token.kept_by}]), 1e-9);
}

TEST_P(Differences, AreCalledOffAndRefused) {
  const std::atomic<bool> cancelled = true;
  EXPECT_THROW(policy_difference(*recording_, kA, kB, {{kA, 0, 0}}, -1, true, nullptr, cancelled), Cancelled);
  EXPECT_THROW(of({{kA, 0, 0}}, 99), InvalidInput);
}

INSTANTIATE_TEST_SUITE_P(Attention, Differences, ::testing::Bool(),
                         [](const auto& given) { return given.param ? "recorded" : "recomputed"; });

TEST(DifferencesWithoutNone, SayThatWhatWasLostIsNotKnown) {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"keydiff", "sink"});
  options.budget = 12;
  const auto recording = test::run_in_memory(test::tiny_model(), options).recording;
  const std::atomic<bool> cancelled = false;
  const PolicyDifference difference =
      policy_difference(*recording, 0, 1, {{0, 0, 0}}, -1, true, nullptr, cancelled);
  EXPECT_THAT(difference.missing, HasSubstr("none"));
  ASSERT_FALSE(difference.tokens.empty());
  EXPECT_FALSE(difference.tokens.front().afterwards);
}

}  // namespace
}  // namespace keyscope::measures

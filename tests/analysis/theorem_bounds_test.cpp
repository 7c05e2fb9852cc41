#include "analysis/theorem_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

std::vector<std::int32_t> positions_of(Index n_keys, Index group) {
  std::vector<std::int32_t> positions;
  for (Index g = 0; g < group; ++g)
    for (Index i = 0; i < n_keys; ++i) positions.push_back(static_cast<std::int32_t>(i));
  return positions;
}

struct Head {
  RowMatrixF keys, queries;
  std::vector<std::int32_t> positions;
};

Head golden_head(const nlohmann::json& golden) {
  const auto seed = golden["seed"].get<std::uint64_t>();
  const auto n = golden["keys"].get<Index>();
  const auto group = golden["group"].get<Index>();
  const auto cols = golden["cols"].get<Index>();
  return {sample_rows(seed, n, cols, golden["key_offset"].get<double>()),
          sample_rows(seed + 1, group * n, cols, golden["query_offset"].get<double>()),
          positions_of(n, group)};
}

TEST(MeanKeyBounds, MatchesThePlainLoopInNumPy) {
  for (const auto& golden : read_goldens("analysis_goldens.json", "bounds")) {
    const Head head = golden_head(golden);
    const MeanKeyBounds bounds = mean_key_bounds(head.keys, head.queries, head.positions);
    EXPECT_EQ(bounds.pairs, golden["pairs"].get<std::int64_t>());
    EXPECT_EQ(bounds.pairs_causal, golden["pairs_causal"].get<std::int64_t>());
    EXPECT_EQ(bounds.violations, 0);
    EXPECT_EQ(bounds.sampled, 0);
    EXPECT_NEAR(bounds.min_slack, golden["min_slack"].get<double>(), 1e-12);
    EXPECT_NEAR(bounds.min_slack_exact, golden["min_slack_exact"].get<double>(), 1e-10);
    EXPECT_LE(bounds.min_slack_exact, bounds.min_slack);
  }
}

TEST(MeanKeyBounds, WorkedByHandAtRightAngles) {
  // Mean key along (-2, 1)/√5; of the two keys only (0, 2) lies on the query's side.
  RowMatrixF keys(2, 2), queries(1, 2);
  keys << -4, 0, 0, 2;
  queries << 1, 1;
  const MeanKeyBounds bounds = mean_key_bounds(keys, queries, std::vector<std::int32_t>{0});
  EXPECT_EQ(bounds.pairs, 1);
  EXPECT_EQ(bounds.pairs_causal, 0) << "the key comes after the query";
  const double alpha = -1 / std::sqrt(10), beta = std::sqrt(0.5), gamma = 1 / std::sqrt(5);
  EXPECT_NEAR(bounds.min_slack, 1 + alpha * beta - alpha * alpha / 2 - beta * beta / 2 - gamma, 1e-15);
  EXPECT_NEAR(bounds.min_slack_exact, 0, 1e-15) << "in the plane the spherical bound is met with equality";
}

TEST(MeanKeyBounds, SharesAreOfThePairsLookedAt) {
  // Mean key (-1, 1); for the first query α < 0, and of the three keys only (1, 1) lies on its side.
  RowMatrixF keys(3, 2), queries(2, 2);
  keys << -4, 3, 1, 1, 0, -1;
  queries << 1, 0.5F, 0, 0;
  const MeanKeyBounds bounds = mean_key_bounds(keys, queries, std::vector<std::int32_t>{1, 0});
  EXPECT_EQ(bounds.pairs, 1);
  EXPECT_DOUBLE_EQ(bounds.share, 1.0 / 6);
  EXPECT_DOUBLE_EQ(bounds.share_causal, 1.0 / 3) << "two keys before the first query, one before the second";
  EXPECT_EQ(bounds.slack.count(), 1);
  EXPECT_EQ(bounds.slack.quantile(0.5), bounds.min_slack);
  EXPECT_EQ(bounds.slack_exact.quantile(1), bounds.min_slack_exact);
  const MeanKeyBounds unseen = mean_key_bounds(keys, queries, std::vector<std::int32_t>{-1, -1});
  EXPECT_TRUE(std::isnan(unseen.share_causal));
}

TEST(MeanKeyBounds, SlackIsSpreadAsThePlainLoopFindsIt) {
  const Head head{sample_rows(1, 60, 8, 0.2), sample_rows(2, 60, 8, -0.1), positions_of(60, 1)};
  const Eigen::VectorXd mean = head.keys.cast<double>().colwise().mean();
  const auto cosine = [](const Eigen::VectorXd& a, const Eigen::VectorXd& b) {
    return a.dot(b) / (a.norm() * b.norm());
  };
  std::vector<double> slacks;
  for (Index i = 0; i < 60; ++i)
    for (Index j = 0; j < 60; ++j) {
      const Eigen::VectorXd q = head.queries.row(i).cast<double>(), k = head.keys.row(j).cast<double>();
      const double alpha = cosine(mean, q), beta = cosine(k, q);
      if (alpha < 0 && beta > 0)
        slacks.push_back(1 + alpha * beta - alpha * alpha / 2 - beta * beta / 2 - cosine(mean, k));
    }
  std::sort(slacks.begin(), slacks.end());
  const MeanKeyBounds bounds = mean_key_bounds(head.keys, head.queries, head.positions);
  ASSERT_EQ(bounds.slack.count(), std::ssize(slacks));
  for (const double p : {0.05, 0.5, 0.95}) {
    const double expected =
        slacks[static_cast<std::size_t>(std::ceil(p * static_cast<double>(slacks.size()))) - 1];
    EXPECT_NEAR(bounds.slack.quantile(p), expected, expected / 32);
  }
}

TEST(MeanKeyBounds, HoldsOnRowsOfEveryShape) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Index cols = 1 + static_cast<Index>(seed % 6);
    const RowMatrixF keys = sample_rows(seed, 37, cols, 0.3);
    const RowMatrixF queries = sample_rows(seed + 500, 50, cols, -0.2);
    const auto bounds = mean_key_bounds(keys, queries, std::vector<std::int32_t>(50, 36));
    EXPECT_EQ(bounds.violations, 0) << cols << " columns";
    EXPECT_EQ(bounds.pairs, bounds.pairs_causal) << "every key is before the last position";
    if (bounds.pairs > 0) {
      EXPECT_GE(bounds.min_slack, -1e-12);
      EXPECT_GE(bounds.min_slack_exact, -1.5e-8);
    }
  }
}

TEST(MeanKeyBounds, IsFreeOfScale) {
  const Head head{sample_rows(1, 40, 8, 0.2), sample_rows(2, 40, 8, -0.1), positions_of(40, 1)};
  const auto bounds = mean_key_bounds(head.keys, head.queries, head.positions);
  const auto scaled = mean_key_bounds(head.keys * 0x1p60F, head.queries * 0x1p-60F, head.positions);
  EXPECT_EQ(bounds.pairs, scaled.pairs);
  EXPECT_NEAR(bounds.min_slack, scaled.min_slack, 1e-14);
}

TEST(MeanKeyBounds, SamplesWholeQueriesAboveTheLimit) {
  const Head head{sample_rows(1, 50, 8, 0.2), sample_rows(2, 200, 8, -0.1),
                  std::vector<std::int32_t>(200, 49)};
  const auto all = mean_key_bounds(head.keys, head.queries, head.positions);
  const auto some = mean_key_bounds(head.keys, head.queries, head.positions, {.max_pairs = 2020, .seed = 7});
  EXPECT_EQ(some.sampled, 2000);
  EXPECT_GT(some.pairs, 0);
  EXPECT_LT(some.pairs, all.pairs);
  EXPECT_GE(some.min_slack, all.min_slack);
  const auto again = mean_key_bounds(head.keys, head.queries, head.positions, {.max_pairs = 2020, .seed = 7});
  EXPECT_EQ(some.pairs, again.pairs);
  const auto other = mean_key_bounds(head.keys, head.queries, head.positions, {.max_pairs = 2020, .seed = 8});
  EXPECT_NE(some.min_slack, other.min_slack);
}

TEST(MeanKeyBounds, WithoutPairsThereIsNoSlack) {
  const RowMatrixF keys = RowMatrixF::Ones(5, 3);
  for (const float sign : {1.0F, 0.0F, -1.0F}) {  // alike, zero, opposite: α < 0 < β never holds
    const auto bounds = mean_key_bounds(keys, RowMatrixF(keys * sign), positions_of(5, 1));
    EXPECT_EQ(bounds.pairs, 0);
    EXPECT_TRUE(std::isnan(bounds.min_slack));
    EXPECT_TRUE(std::isnan(bounds.min_slack_exact));
  }
}

TEST(AttentionWeightBounds, MatchesThePlainLoopInNumPy) {
  for (const auto& golden : read_goldens("analysis_goldens.json", "bounds")) {
    const Head head = golden_head(golden);
    const auto& expected = golden["weights"];
    const auto bounds = attention_weight_bounds(head.keys, head.queries, head.positions);
    EXPECT_EQ(bounds.pairs, expected["pairs"].get<std::int64_t>());
    EXPECT_EQ(bounds.pairs_nonnegative, expected["pairs_nonnegative"].get<std::int64_t>());
    EXPECT_EQ(bounds.stated.violations, expected["stated_violations"].get<std::int64_t>());
    EXPECT_EQ(bounds.proof.violations, 0);
    EXPECT_EQ(bounds.always.violations, 0);
    EXPECT_NEAR(bounds.stated.min_slack, expected["stated"].get<double>(), 1e-10);
    EXPECT_NEAR(bounds.proof.min_slack, expected["proof"].get<double>(), 1e-10);
    EXPECT_NEAR(bounds.always.min_slack, expected["always"].get<double>(), 1e-10);
  }
}

TEST(AttentionWeightBounds, KeysAgainstTheQueryAreNotHeldAgainstTheLemma) {
  // q = 1, k_1 = -3.16, k* = -0.01: the stated bound is -0.875 where the cosine is -1, outside its proof.
  RowMatrixF keys(2, 1), queries(1, 1);
  keys << -3.16F, -0.01F;
  queries << 1;
  const auto bounds = attention_weight_bounds(keys, queries, std::vector<std::int32_t>{1});
  EXPECT_EQ(bounds.pairs, 2);
  EXPECT_EQ(bounds.pairs_nonnegative, 0);
  EXPECT_EQ(bounds.stated.violations, 0);
  EXPECT_TRUE(std::isnan(bounds.stated.min_slack));
  EXPECT_GE(bounds.always.min_slack, 0);
}

TEST(AttentionWeightBounds, TheStatedReadingCanFailForShortKeys) {
  // M = sup ‖k‖² = 0.01 is far below sup ‖k‖ = 0.1, and |k·q| <= M does not hold: k_1 = -0.1 q, k* at 84° to
  // q.
  RowMatrixF keys(2, 2), queries(1, 2);
  keys << -0.1F, 0, 0.01F, 0.0995F;
  keys *= std::sqrt(2.0F);  // √head_dim, which the scale takes away
  queries << 1, 0;
  const auto bounds = attention_weight_bounds(keys, queries, std::vector<std::int32_t>{1});
  EXPECT_EQ(bounds.pairs_nonnegative, 1);
  EXPECT_EQ(bounds.share_nonnegative, 0.5);
  EXPECT_EQ(bounds.stated.violations, 1);
  EXPECT_EQ(bounds.stated.slack.count(), 1);
  EXPECT_LT(bounds.stated.slack.quantile(0.5), 0);
  EXPECT_EQ(bounds.always.slack.count(), 2);
  EXPECT_EQ(bounds.proof.violations, 0);
  EXPECT_EQ(bounds.always.violations, 0);
}

TEST(AttentionWeightBounds, SurvivesWeightsOfOneAndOfZero) {
  RowMatrixF keys = sample_rows(3, 20, 4) * 1000;
  keys.row(4).setZero();
  const RowMatrixF queries = sample_rows(4, 20, 4) * 1000;
  const auto bounds = attention_weight_bounds(keys, queries, positions_of(20, 1));
  EXPECT_EQ(bounds.pairs, 20 * 21 / 2 - 1 - 16) << "one query sees a single key; sixteen see the zero key";
  EXPECT_EQ(bounds.proof.violations, 0);
  EXPECT_EQ(bounds.always.violations, 0);
  EXPECT_TRUE(std::isfinite(bounds.proof.min_slack));
  EXPECT_TRUE(std::isfinite(bounds.always.min_slack));
}

TEST(AttentionWeightBounds, ProvedReadingsHoldAtEveryScale) {
  for (const float scale : {1e-12F, 1e-3F, 1.0F, 30.0F}) {
    const RowMatrixF keys = sample_rows(5, 60, 6, 0.1) * scale;
    const RowMatrixF queries = sample_rows(6, 60, 6);
    const auto bounds = attention_weight_bounds(keys, queries, positions_of(60, 1));
    EXPECT_GT(bounds.pairs_nonnegative, 0);
    EXPECT_EQ(bounds.proof.violations, 0) << "scale " << scale;
    EXPECT_EQ(bounds.always.violations, 0) << "scale " << scale;
  }
}

TEST(TheoremBounds, RefuseWhatDoesNotFit) {
  RowMatrixF keys = sample_rows(1, 4, 3);
  const RowMatrixF queries = sample_rows(2, 4, 3);
  const auto positions = positions_of(4, 1);
  const std::vector<std::int32_t> too_few{0, 1};
  EXPECT_THROW(mean_key_bounds(RowMatrixF(0, 3), queries, positions), InvalidInput);
  EXPECT_THROW(mean_key_bounds(keys, RowMatrixF(0, 3), {}), InvalidInput);
  EXPECT_THROW(mean_key_bounds(keys, queries.leftCols(2), positions), InvalidInput);
  EXPECT_THROW(attention_weight_bounds(keys, queries, too_few), InvalidInput);
  keys(0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(mean_key_bounds(keys, queries, positions), InvalidInput);
  EXPECT_THROW(attention_weight_bounds(keys, queries, positions), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

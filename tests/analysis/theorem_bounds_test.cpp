#include "analysis/theorem_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::ArrayXd;
using Eigen::Index;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SlackHistogram, FollowsTheSortedSlacks) {
  // Over 60 octaves and both signs, against the order statistics themselves.
  const auto numbers = sample_uniform(1, 5000);
  std::vector<double> slacks;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2)
    slacks.push_back((numbers[i] < 0.3 ? -1 : 1) * std::exp2(60 * numbers[i + 1] - 30));
  SlackHistogram histogram;
  histogram.add(Eigen::Map<const ArrayXd>(slacks.data(), std::ssize(slacks)));
  EXPECT_EQ(histogram.count(), std::ssize(slacks));
  std::sort(slacks.begin(), slacks.end());
  EXPECT_EQ(histogram.quantile(0), slacks.front());
  EXPECT_EQ(histogram.quantile(1), slacks.back());
  for (const double p : {0.001, 0.1, 0.29, 0.31, 0.5, 0.9, 0.999}) {
    const double expected = slacks[static_cast<std::size_t>(std::ceil(p * 2500)) - 1];
    EXPECT_NEAR(histogram.quantile(p), expected, std::abs(expected) / 32) << p;
  }
}

TEST(SlackHistogram, CountsWhatIsBeyondItsBins) {
  SlackHistogram histogram;
  ArrayXd slacks(5);
  slacks << -1e30, 1e-20, 0, -1e-20, 1e30;
  histogram.add(slacks);
  EXPECT_EQ(histogram.count(), 5);
  EXPECT_EQ(histogram.quantile(0), -1e30);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  EXPECT_EQ(histogram.quantile(1), 1e30);
}

TEST(SlackHistogram, CountsBelowFollowsTheSortedSlacks) {
  const auto numbers = sample_uniform(2, 4000);
  ArrayXd slacks(std::ssize(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) slacks[static_cast<Index>(i)] = 3 * numbers[i] - 1;
  SlackHistogram histogram;
  histogram.add(slacks);
  EXPECT_EQ(histogram.count_below(slacks.minCoeff()), 0);
  EXPECT_EQ(histogram.count_below(2.5), 4000);
  for (const double at : {-0.5, -0.25, 0.25, 1.0}) {  // powers of two: edges of bins
    const double expected = static_cast<double>((slacks < at).count());
    EXPECT_EQ(histogram.count_below(at), at < 0 ? static_cast<double>((slacks <= at).count()) : expected);
  }
  for (const double at : {-0.7, -0.01, 0.0, 0.33, 1.9})  // uniform inside a bin, as the slacks are
    EXPECT_NEAR(histogram.count_below(at), static_cast<double>((slacks < at).count()), 40) << at;
}

TEST(SlackHistogram, TwoAreAddedAsIfTheyHadBeenOne) {
  SlackHistogram a, b, both;
  const ArrayXd low = ArrayXd::LinSpaced(50, -2, 1), high = ArrayXd::LinSpaced(70, 0.5, 9);
  a.add(low);
  b.add(high);
  both.add(low);
  both.add(high);
  a.add(b);
  EXPECT_EQ(a.count(), 120);
  for (const double p : {0.0, 0.2, 0.5, 0.8, 1.0}) EXPECT_EQ(a.quantile(p), both.quantile(p));
  EXPECT_EQ(a.count_below(0.75), both.count_below(0.75));
}

TEST(SlackHistogram, PassesOverWhatDoesNotCount) {
  SlackHistogram histogram;
  EXPECT_TRUE(std::isnan(histogram.quantile(0.5)));
  histogram.add(ArrayXd::Constant(3, kInfinity));
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_TRUE(std::isnan(histogram.quantile(0.5)));
  histogram.add(ArrayXd::Constant(1, 0.3));
  histogram.add(ArrayXd::Constant(2, kInfinity));
  EXPECT_EQ(histogram.count(), 1);
  for (const double p : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.quantile(p), 0.3);
}

TEST(SlackHistogram, RefusesWhatIsNoProbability) {
  for (const double p : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(SlackHistogram().quantile(p), InvalidInput);
}

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
    for (const bool histograms : {false, true}) {
      const MeanKeyBounds bounds =
          mean_key_bounds(head.keys, head.queries, head.positions, {.histograms = histograms});
      EXPECT_EQ(bounds.pairs, golden["pairs"].get<std::int64_t>());
      EXPECT_EQ(bounds.pairs_causal, golden["pairs_causal"].get<std::int64_t>());
      EXPECT_EQ(bounds.violations, 0);
      EXPECT_EQ(bounds.sampled, 0);
      EXPECT_NEAR(bounds.min_slack, golden["min_slack"].get<double>(), 1e-12);
      EXPECT_NEAR(bounds.min_slack_exact, golden["min_slack_exact"].get<double>(), 1e-10);
      EXPECT_LE(bounds.min_slack_exact, bounds.min_slack);
    }
  }
}

TEST(MeanKeyBounds, AreTheSameWithoutHistograms) {
  for (const Index n_keys : {1, 63, 64, 65, 300})
    for (const double offset : {0.0, 0.3, 3.0}) {
      const Head head{sample_rows(1, n_keys, 8, offset), sample_rows(2, 200, 8, -offset),
                      positions_of(200, 1)};
      const MeanKeyBounds all = mean_key_bounds(head.keys, head.queries, head.positions);
      const MeanKeyBounds least =
          mean_key_bounds(head.keys, head.queries, head.positions, {.histograms = false});
      EXPECT_EQ(least.pairs, all.pairs);
      EXPECT_EQ(least.pairs_causal, all.pairs_causal);
      EXPECT_EQ(least.violations, all.violations);
      EXPECT_EQ(least.share, all.share);
      EXPECT_EQ(least.slack.count(), 0);
      if (all.pairs == 0) {
        EXPECT_TRUE(std::isnan(least.min_slack) && std::isnan(least.min_slack_exact));
        continue;
      }
      EXPECT_NEAR(least.min_slack, all.min_slack, 1e-15) << n_keys << " keys around " << offset;
      EXPECT_NEAR(least.min_slack_exact, all.min_slack_exact, 1e-15) << n_keys << " keys around " << offset;
    }
}

// Where √(1-β²) falls off fastest, and where slacks are nothing but rounding.
TEST(MeanKeyBounds, AreTheSameWithoutHistogramsNearParallels) {
  for (const float tilt : {1e-2F, 1e-4F, 1e-7F}) {
    RowMatrixF keys = RowMatrixF::Zero(130, 4);
    keys.col(0).setOnes();
    keys.rightCols(3) = tilt * sample_rows(1, 130, 3);
    keys.bottomRows(20) *= -1;
    RowMatrixF queries = -keys.topRows(40);
    queries.rightCols(3) += tilt * sample_rows(2, 40, 3);
    const std::vector<std::int32_t> positions(40, 129);
    const MeanKeyBounds all = mean_key_bounds(keys, queries, positions);
    const MeanKeyBounds least = mean_key_bounds(keys, queries, positions, {.histograms = false});
    EXPECT_GT(all.pairs, 0);
    EXPECT_EQ(least.pairs, all.pairs);
    EXPECT_NEAR(least.min_slack, all.min_slack, 1e-15);
    EXPECT_NEAR(least.min_slack_exact, all.min_slack_exact, 1e-15);
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
    const auto bounds =
        mean_key_bounds(keys, queries, std::vector<std::int32_t>(50, 36), {.histograms = seed % 2 == 0});
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

// Theorem 3.2, and the reading of Lemma 3.1 that needs no assumptions, on ten million pairs: heads drawn at
// random, and heads built to come as close to the bounds as they can.

namespace {

struct DrawnHead {
  std::string kind;
  RowMatrixF keys, queries;
};

constexpr Index kKeys = 500;
constexpr Index kQueries = 1000;

DrawnHead random_head(std::uint64_t seed, Index cols) {
  return {"random", sample_rows(seed, kKeys, cols, 0.3), sample_rows(seed + 500, kQueries, cols, -0.2)};
}

// Key norms over 40 octaves: the mean key is that of a few.
DrawnHead uneven_head(std::uint64_t seed, Index cols) {
  DrawnHead head = random_head(seed, cols);
  head.kind = "uneven";
  const auto exponents = sample_uniform(seed + 1, kKeys);
  for (Index i = 0; i < kKeys; ++i) head.keys.row(i) *= static_cast<float>(std::exp2(40 * exponents[i] - 20));
  return head;
}

// All in one plane, where the spherical bound is met with equality, and at α = -β, where the paper's bound
// equals the spherical one.
DrawnHead plane_head(std::uint64_t seed, Index /*cols*/) {
  DrawnHead head{"plane", RowMatrixF(kKeys, 2), RowMatrixF(kQueries, 2)};
  const auto angles = sample_uniform(seed, kKeys + kQueries);
  const auto turn = [&](RowMatrixF& rows, Index i, Index draw) {
    const double angle = 2 * M_PI * angles[draw];
    rows(i, 0) = static_cast<float>(std::cos(angle));
    rows(i, 1) = static_cast<float>(std::sin(angle));
  };
  for (Index i = 0; i < kKeys; ++i) turn(head.keys, i, i);
  for (Index i = 0; i < kQueries; ++i) turn(head.queries, i, kKeys + i);
  head.keys.col(0).array() += 0.1F;
  return head;
}

// Keys that differ from their mean by float32's last bits, queries at right angles to it within as much.
DrawnHead narrow_head(std::uint64_t seed, Index cols) {
  DrawnHead head = random_head(seed, cols);
  head.kind = "narrow";
  head.keys *= 1e-6F;
  head.keys.col(0).array() += 1;
  head.queries.col(0) *= 1e-6F;
  return head;
}

// Queries along or against single keys: cosines of ±1, weights that go to 0 and to 1.
DrawnHead aligned_head(std::uint64_t seed, Index cols) {
  DrawnHead head = random_head(seed, cols);
  head.kind = "aligned";
  for (Index i = 0; i < kQueries; ++i)
    head.queries.row(i) = head.keys.row(i % kKeys) * (i % 3 == 0 ? -300.0F : 300.0F);
  return head;
}

template <typename Visit>
void visit_heads(int n_rounds, const Visit& visit) {
  using Make = std::function<DrawnHead(std::uint64_t, Index)>;
  const std::vector<Make> kinds{random_head, uneven_head, plane_head, narrow_head, aligned_head};
  std::uint64_t seed = 0;
  for (int round = 0; round < n_rounds; ++round)
    for (const Make& make : kinds)
      for (const Index cols : {1, 2, 8, 32}) visit(make(++seed, cols));
}

TEST(TheoremProperties, TheMeanKeyBoundHoldsOnTenMillionPairs) {
  std::int64_t n_pairs = 0;
  double least = 1;
  visit_heads(12, [&](const DrawnHead& head) {
    const std::vector<std::int32_t> positions(kQueries, kKeys - 1);
    const auto bounds = mean_key_bounds(head.keys, head.queries, positions);
    n_pairs += bounds.pairs;
    EXPECT_EQ(bounds.violations, 0) << head.kind << ", " << head.keys.cols() << " columns";
    EXPECT_EQ(bounds.slack.count(), bounds.pairs);
    if (bounds.pairs == 0) return;
    EXPECT_GE(bounds.min_slack, -1e-12) << head.kind;
    EXPECT_GE(bounds.min_slack_exact, -3e-8) << head.kind;
    least = std::min(least, bounds.min_slack);
  });
  EXPECT_GE(n_pairs, 10'000'000) << "pairs that meet its hypotheses";
  EXPECT_LE(least, 1e-6) << "and come close to it";
}

TEST(TheoremProperties, TheUnconditionalLemmaHoldsOnTenMillionPairs) {
  std::int64_t n_pairs = 0;
  visit_heads(1, [&](const DrawnHead& head) {
    const std::vector<std::int32_t> positions(kQueries, kKeys - 1);
    const auto bounds = attention_weight_bounds(head.keys, head.queries, positions);
    n_pairs += bounds.pairs;
    EXPECT_EQ(bounds.always.violations, 0) << head.kind << ", " << head.keys.cols() << " columns";
    EXPECT_EQ(bounds.proof.violations, 0) << head.kind << ", " << head.keys.cols() << " columns";
    EXPECT_EQ(bounds.always.slack.count(), bounds.pairs);
  });
  EXPECT_GE(n_pairs, 10'000'000);
}

}  // namespace

}  // namespace keyscope::analysis

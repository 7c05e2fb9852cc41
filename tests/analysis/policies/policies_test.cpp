#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <Eigen/Cholesky>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "base/errors.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

// Each policy by itself, on caches small enough to check by eye.

namespace {

using Rows = std::vector<std::int32_t>;

Rows count_up(Eigen::Index n) {
  Rows rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

PolicyInput input_of(const RowMatrixF& keys, const Rows& positions) {
  return {.keys = keys, .values = RowMatrixF(0, 0), .positions = positions};
}

std::vector<double> scores_of(const std::string& policy, const RowMatrixF& keys,
                              const RowMatrixF& values = RowMatrixF(0, 0)) {
  const Rows positions = count_up(keys.rows());
  std::vector<double> scores(positions.size());
  const PolicyInput input{.keys = keys, .values = values, .positions = positions};
  make_policy(parse_policy(policy), 0)->score(input, scores);
  return scores;
}

Rows retained_by(const std::string& policy, const RowMatrixF& keys, const Rows& positions,
                 std::int64_t budget) {
  const auto made = make_policy(parse_policy(policy), 0);
  const PolicyInput input = input_of(keys, positions);
  std::vector<double> scores(positions.size());
  std::vector<std::uint8_t> forced(positions.size());
  made->score(input, scores);
  made->force(input, budget, forced);
  Rows retained;
  for (const auto row : select_rows(scores, forced, budget).retained) retained.push_back(positions[row]);
  return retained;
}

TEST(KeyDiff, WorkedByHand) {
  RowMatrixF keys(4, 2);
  keys << 2, 0, 2, 0, 0, 2, 4, 0;  // mean (2, 0.5)
  const auto cosine = scores_of("keydiff", keys);
  EXPECT_NEAR(cosine[0], -2 / std::sqrt(4.25), 1e-15);
  EXPECT_NEAR(cosine[2], -0.5 / std::sqrt(4.25), 1e-15);
  EXPECT_EQ(cosine[0], cosine[3]);
  EXPECT_EQ(retained_by("keydiff", keys, count_up(4), 2), (Rows{0, 2}))
      << "of equal scores the lower position";
  EXPECT_EQ(scores_of("keydiff:metric=dot", keys), (std::vector<double>{-4, -4, -1, -8}));
  EXPECT_NEAR(scores_of("keydiff:metric=euclidean", keys)[2], std::sqrt(4 + 2.25), 1e-15);
  // Normalised mean (3/4, 1/4); each key meets itself too in the pairwise sum.
  EXPECT_NEAR(scores_of("keydiff:anchor=normalized-mean", keys)[0], -0.75 / std::sqrt(0.625), 1e-15);
  EXPECT_NEAR(scores_of("keydiff:anchor=pairwise", keys)[0], -3, 1e-15);
  EXPECT_NEAR(scores_of("keydiff:anchor=median", keys)[0], -1, 1e-15) << "median (2, 0)";
}

TEST(KeyDiff, EqualsThePlainLoop) {
  const RowMatrixF keys = sample_rows(1, 130, 48, 0.4);
  const auto scores = scores_of("keydiff", keys);
  const RowMatrixD wide = keys.cast<double>();
  const Eigen::VectorXd mean = wide.colwise().mean().transpose();
  for (Eigen::Index i = 0; i < wide.rows(); ++i)
    EXPECT_NEAR(scores[i], -wide.row(i).dot(mean) / (wide.row(i).norm() * mean.norm()), 12 * 0x1p-24);
}

TEST(KeyDiff, PairwiseIsTheDoubleSumAndRetainsAsTheNormalizedMean) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RowMatrixF keys = sample_rows(seed, 60, 10, 0.3);
    const auto pairwise = scores_of("keydiff:anchor=pairwise", keys);
    const RowMatrixD unit = keys.cast<double>().rowwise().normalized();
    const Eigen::VectorXd sums = -(unit * unit.transpose()).rowwise().sum();
    for (std::size_t i = 0; i < pairwise.size(); ++i)
      EXPECT_NEAR(pairwise[i], sums[static_cast<Eigen::Index>(i)], 1e-11);
    EXPECT_EQ(retained_by("keydiff:anchor=pairwise", keys, count_up(60), 17),
              retained_by("keydiff:anchor=normalized-mean", keys, count_up(60), 17));
  }
}

TEST(KeyDiff, ZeroKeysAndAnchorsScoreZero) {
  RowMatrixF keys = sample_rows(2, 5, 4, 1);
  keys.row(3).setZero();
  EXPECT_EQ(scores_of("keydiff", keys)[3], 0);
  RowMatrixF opposite(6, 3);
  opposite << 1, 3, 0.7F, -1, -3, -0.7F, 5, 2, 0.1F, -5, -2, -0.1F, 1, 3, 0.7F, -1, -3, -0.7F;
  for (const Eigen::Index n : {2, 6})
    for (const char* anchor : {"mean", "normalized-mean", "median", "pairwise"})
      EXPECT_EQ(scores_of(std::string("keydiff:anchor=") + anchor, opposite.topRows(n)),
                std::vector<double>(n, 0))
          << anchor;
}

TEST(KeyDiff, IgnoresScaleAndRotatesWithTheKeys) {
  const RowMatrixF keys = sample_rows(3, 40, 8, 0.2);
  EXPECT_EQ(scores_of("keydiff", keys * 0x1p90F), scores_of("keydiff", keys));
  EXPECT_EQ(scores_of("keydiff", keys * 0x1p-90F), scores_of("keydiff", keys));
}

TEST(KeyDiff, RecentRowsStay) {
  const RowMatrixF keys = RowMatrixF::Ones(20, 3);  // all scores tie: without a window the first rows stay
  EXPECT_EQ(retained_by("keydiff", keys, count_up(20), 10), count_up(10));
  EXPECT_EQ(retained_by("keydiff:recent=0.15", keys, count_up(20), 10),
            (Rows{0, 1, 2, 3, 4, 5, 6, 7, 18, 19}))
      << "1.5 rounds up to 2";
  EXPECT_EQ(retained_by("keydiff:recent=1", keys, count_up(20), 4), (Rows{16, 17, 18, 19}));
}

TEST(KeyDiff, KeysThatAreNotFiniteAreRefused) {
  RowMatrixF keys = sample_rows(4, 6, 3);
  keys(2, 1) = std::numeric_limits<float>::infinity();
  EXPECT_THROW(retained_by("keydiff", keys, count_up(6), 3), InvalidInput);
}

TEST(RoundHalfUp, FollowsTheDecimalFraction) {
  EXPECT_EQ(round_half_up(0.1, 5), 1);
  EXPECT_EQ(round_half_up(0.1, 4), 0);
  EXPECT_EQ(round_half_up(0.29, 50), 15) << "14.5, although 0.29 · 50 < 14.5 in binary";
  EXPECT_EQ(round_half_up(0.2, 2048), 410);
  EXPECT_EQ(round_half_up(0, 100), 0);
  EXPECT_EQ(round_half_up(1, 7), 7);
}

TEST(Sink, KeepsTheFirstAndTheMostRecent) {
  const RowMatrixF keys(12, 1);
  EXPECT_EQ(retained_by("sink", keys, count_up(12), 7), (Rows{0, 1, 2, 3, 9, 10, 11}));
  EXPECT_EQ(retained_by("sink:first=0", keys, count_up(12), 3), (Rows{9, 10, 11}));
}

TEST(Sink, ABudgetBelowTheSinksKeepsTheFirstPositions) {
  EXPECT_EQ(retained_by("sink", RowMatrixF(12, 1), count_up(12), 3), (Rows{0, 1, 2}));
  EXPECT_EQ(retained_by("sink", RowMatrixF(12, 1), count_up(12), 1), (Rows{0}));
}

TEST(Sink, GoesByPositionNotByRow) {
  const Rows positions{0, 2, 5, 6, 7, 8};  // 1 and 3 are gone
  EXPECT_EQ(retained_by("sink", RowMatrixF(6, 1), positions, 4), (Rows{0, 2, 7, 8}));
}

TEST(Tova, RefusesWeightsThatWereNotGiven) {
  const RowMatrixF keys(3, 1);
  const Rows positions = count_up(3);
  std::vector<double> scores(3);
  EXPECT_THROW(make_policy(parse_policy("tova"), 0)->score(input_of(keys, positions), scores), InvalidInput);
}

TEST(Tova, TakesTheGroupOrTheLayer) {
  const RowMatrixF keys(2, 1);
  const Rows positions = count_up(2);
  const std::vector<float> group{0.25F, 0.75F}, layer{0.5F, 0.125F};
  PolicyInput input = input_of(keys, positions);
  input.last_row_group = group;
  input.last_row_layer = layer;
  std::vector<double> scores(2);
  make_policy(parse_policy("tova"), 0)->score(input, scores);
  EXPECT_EQ(scores, (std::vector<double>{0.25, 0.75}));
  make_policy(parse_policy("tova:heads=all"), 0)->score(input, scores);
  EXPECT_EQ(scores, (std::vector<double>{0.5, 0.125}));
}

TEST(Random, DrawsAreFixedUniformAndUnrelated) {
  std::set<double> seen;
  double sum = 0;
  for (int layer = 0; layer < 10; ++layer)
    for (int head = 0; head < 10; ++head)
      for (std::int32_t position = 0; position < 100; ++position) {
        const double draw = uniform_draw(7, layer, head, position);
        EXPECT_EQ(draw, uniform_draw(7, layer, head, position));
        EXPECT_GE(draw, 0);
        EXPECT_LT(draw, 1);
        sum += draw;
        seen.insert(draw);
      }
  EXPECT_EQ(seen.size(), 10000U);
  EXPECT_NEAR(sum / 10000, 0.5, 0.015) << "five standard errors";
  EXPECT_NE(uniform_draw(7, 1, 2, 3), uniform_draw(8, 1, 2, 3));
  EXPECT_NE(uniform_draw(7, 1, 2, 3), uniform_draw(7, 2, 1, 3));
}

TEST(Random, TheRunsSeedServesWhereNoneIsGiven) {
  const RowMatrixF keys(8, 1);
  const Rows positions = count_up(8);
  std::vector<double> given(8), fallback(8), other(8);
  make_policy(parse_policy("random:seed=5"), 1)->score(input_of(keys, positions), given);
  make_policy(parse_policy("random"), 5)->score(input_of(keys, positions), fallback);
  make_policy(parse_policy("random"), 6)->score(input_of(keys, positions), other);
  EXPECT_EQ(given, fallback);
  EXPECT_NE(given, other);
}

TEST(Random, EvictingInBlocksKeepsASampleOfAllTokens) {
  // Each token keeps its draw: ten at a time or all at once, the same ones stay.
  Rows present;
  for (std::int32_t start = 0; start < 200; start += 10) {
    for (std::int32_t i = 0; i < 10; ++i) present.push_back(start + i);
    present =
        retained_by("random:seed=1", RowMatrixF(static_cast<Eigen::Index>(present.size()), 1), present, 30);
  }
  EXPECT_EQ(present, retained_by("random:seed=1", RowMatrixF(200, 1), count_up(200), 30));
}

}  // namespace

// Policies that score by attention, on weights small enough to check by eye.

namespace {

struct Scored {
  std::vector<double> scores;
  std::vector<std::uint8_t> forced;
};

// What a policy makes of rows without keys, by their attention alone.
struct Attention {
  std::vector<double> received;
  std::vector<std::int32_t> queries;
  std::vector<float> window_sums;

  Scored scored_by(const std::string& policy, std::int64_t budget) const {
    const auto made = make_policy(parse_policy(policy), 0);
    const std::size_t n_rows = received.empty() ? window_sums.size() : received.size();
    std::vector<std::int32_t> positions(n_rows);
    std::iota(positions.begin(), positions.end(), 0);
    const RowMatrixF none(0, 0);
    const PolicyInput input{.keys = none,
                            .values = none,
                            .positions = positions,
                            .attention_received = received,
                            .attention_queries = queries,
                            .window_sums = window_sums};
    Scored result{std::vector<double>(n_rows), std::vector<std::uint8_t>(n_rows)};
    made->score(input, result.scores);
    made->force(input, budget, result.forced);
    return result;
  }
};

using Doubles = std::vector<double>;
using Flags = std::vector<std::uint8_t>;

TEST(H2o, ScoresBySumOrByMean) {
  const Attention attention{{3, 1, 0.5, 0}, {4, 2, 1, 0}, {}};
  EXPECT_EQ(attention.scored_by("h2o", 2).scores, (Doubles{3, 1, 0.5, 0}));
  EXPECT_EQ(attention.scored_by("h2o:normalize=1", 2).scores, (Doubles{0.75, 0.5, 0.5, 0}));
  EXPECT_EQ(attention.scored_by("h2o", 2).forced, (Flags{0, 0, 0, 0}));
  EXPECT_EQ(attention.scored_by("h2o:recent=0.5", 3).forced, (Flags{0, 0, 1, 1})) << "half of three, half up";
}

TEST(H2o, NeedsItsSums) {
  const Attention attention{{}, {}, {1, 2}};
  EXPECT_THROW(attention.scored_by("h2o", 1), InvalidInput);
}

TEST(SnapKv, PoolsOverZerosBeyondTheEnds) {
  const Attention attention{{}, {}, {3, 0, 6, 9}};
  EXPECT_EQ(attention.scored_by("snapkv:kernel=3,recent=0", 2).scores, (Doubles{1, 3, 5, 5}));
  EXPECT_EQ(attention.scored_by("snapkv:kernel=1,recent=0", 2).scores, (Doubles{3, 0, 6, 9}));
  EXPECT_EQ(attention.scored_by("snapkv:kernel=9,recent=0", 2).scores, (Doubles{2, 2, 2, 2}));
}

TEST(SnapKv, ForcesTheMostRecentWithinTheBudget) {
  const Attention attention{{}, {}, {3, 0, 6, 9}};
  EXPECT_EQ(attention.scored_by("snapkv", 3).forced, (Flags{0, 1, 1, 1}));
  EXPECT_EQ(attention.scored_by("snapkv:recent=1", 3).forced, (Flags{0, 0, 0, 1}));
}

TEST(SnapKv, AsksForItsWindowAndRefusesAnEvenKernel) {
  EXPECT_EQ(make_policy(parse_policy("snapkv"), 0)->needs().window, 32);
  EXPECT_EQ(make_policy(parse_policy("snapkv:window=5"), 0)->needs().window, 5);
  EXPECT_THROW(parse_policy("snapkv:kernel=4"), UsageError);
  EXPECT_THROW(parse_policy("snapkv:window=0"), UsageError);
}

}  // namespace

// Policies that score by geometry besides KeyDiff, against plain formulas.

namespace {

TEST(L2Norm, PrefersSmallNormsAndTiesWhatRoundsAlike) {
  RowMatrixF keys(4, 2);
  keys << 3, 4, 0, 1, 5, 0, 3.000001F, 4;
  EXPECT_EQ(scores_of("l2norm", keys), (std::vector<double>{-5, -1, -5, -5}));
}

TEST(L2Norm, RoundsToFiveDigitsAtEveryMagnitude) {
  for (const float scale : {1e-20F, 1e-3F, 1.0F, 1e5F, 1e15F}) {
    RowMatrixF keys(3, 1);
    keys << 1.23456F * scale, 1.23457F * scale, 1.2347F * scale;
    const auto scores = scores_of("l2norm", keys);
    EXPECT_NEAR(scores[0] / scale, -1.2346, 2e-6) << scale;
    EXPECT_EQ(scores[0], scores[1]) << scale;
    EXPECT_NE(scores[0], scores[2]) << scale;
  }
  EXPECT_EQ(scores_of("l2norm", RowMatrixF::Zero(1, 3))[0], 0);
}

TEST(L2Norm, LeavesLeadingLayersAlone) {
  const auto policy = make_policy(parse_policy("l2norm:skip=2"), 0);
  EXPECT_FALSE(policy->evicts(1));
  EXPECT_TRUE(policy->evicts(2));
}

TEST(Manifold, IsTheDistanceToTheMeanKey) {
  const RowMatrixF keys = sample_rows(5, 60, 12, 0.5);
  const auto scores = scores_of("manifold", keys), keydiff = scores_of("keydiff:metric=euclidean", keys);
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], keydiff[i], 1e-12);
}

TEST(Cur, IsTheProductOfSquaredNorms) {
  RowMatrixF keys(2, 2), values(2, 2);
  keys << 3, 4, 1, 0;
  values << 2, 0, 1, 1;
  EXPECT_EQ(scores_of("cur", keys, values), (std::vector<double>{100, 2.0000000000000004}));
  EXPECT_THROW(scores_of("cur", keys), InvalidInput);
}

TEST(Leverage, IsTheDiagonalOfTheProjection) {
  const RowMatrixF keys = sample_rows(6, 40, 8, 0.3);
  const RowMatrixD wide = keys.cast<double>();
  const Eigen::MatrixXd gram = wide.transpose() * wide;
  const Eigen::MatrixXd projection = wide * Eigen::LLT<Eigen::MatrixXd>(gram).solve(wide.transpose());
  const auto scores = scores_of("leverage", keys);
  for (Eigen::Index i = 0; i < wide.rows(); ++i) EXPECT_NEAR(scores[i], projection(i, i), 1e-10);
  EXPECT_NEAR(std::accumulate(scores.begin(), scores.end(), 0.0), 8, 1e-10) << "the rank";
}

TEST(Leverage, OfRowsThatSpanLessIsThatOfTheirSpan) {
  RowMatrixF keys(3, 3);
  keys << 1, 0, 0, 1, 0, 0, 0, 2, 0;
  const auto scores = scores_of("leverage", keys);
  EXPECT_NEAR(scores[0], 0.5, 1e-12);
  EXPECT_NEAR(scores[2], 1, 1e-12);
  EXPECT_EQ(scores_of("leverage", RowMatrixF::Zero(2, 3)), (std::vector<double>{0, 0}));
}

// What each row raises the log-determinant by when it is taken, with a determinant for every candidate.
std::vector<double> plain_log_det(const RowMatrixD& keys, double ridge) {
  const double lambda = ridge * keys.squaredNorm() / static_cast<double>(keys.size());
  Eigen::MatrixXd m = lambda * Eigen::MatrixXd::Identity(keys.cols(), keys.cols());
  const auto log_det = [](const Eigen::MatrixXd& matrix) {
    return 2 * Eigen::LLT<Eigen::MatrixXd>(matrix).matrixLLT().diagonal().array().log().sum();
  };
  std::vector<double> gains(keys.rows(), -1);
  for (Eigen::Index taken = 0; taken < keys.rows(); ++taken) {
    Eigen::Index best = -1;
    double most = -std::numeric_limits<double>::infinity();
    for (Eigen::Index i = 0; i < keys.rows(); ++i) {
      if (gains[i] >= 0) continue;
      const double gain = log_det(m + keys.row(i).transpose() * keys.row(i)) - log_det(m);
      if (gain > most + 1e-12) most = gain, best = i;
    }
    gains[best] = most;
    m += keys.row(best).transpose() * keys.row(best);
  }
  return gains;
}

TEST(LogDet, EqualsTheGreedyChoiceByDeterminants) {
  for (const double ridge : {1.0, 0.01}) {
    const RowMatrixF keys = sample_rows(7, 30, 6, 0.4);
    const auto plain = plain_log_det(keys.cast<double>(), ridge);
    const auto scores = scores_of("logdet:ridge=" + std::to_string(ridge), keys);
    for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], plain[i], 1e-9) << i;
  }
}

TEST(LogDet, PrefersWhatIsUnlikeTheRest) {
  RowMatrixF keys(4, 2);
  keys << 1, 0, 1, 0, 1, 0, 0, 1;
  const auto scores = scores_of("logdet", keys);
  EXPECT_GT(scores[0], scores[1]) << "of equal rows the first";
  EXPECT_GT(scores[3], scores[1]);
  EXPECT_EQ(scores_of("logdet", RowMatrixF::Zero(2, 2)), (std::vector<double>{0, 0}));
}

}  // namespace

}  // namespace keyscope::analysis

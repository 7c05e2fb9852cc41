// Policies that score by geometry besides KeyDiff, against plain formulas.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "../sample_rows.hpp"
#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"

namespace keyscope::analysis {
namespace {

std::vector<double> scores_of(const std::string& policy, const RowMatrixF& keys,
                              const RowMatrixF& values = RowMatrixF(0, 0)) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(keys.rows()));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<double> scores(positions.size());
  const PolicyInput input{.keys = keys, .values = values, .positions = positions};
  make_policy(parse_policy(policy), 0)->score(input, scores);
  return scores;
}

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
  const Eigen::MatrixXd projection = wide * (wide.transpose() * wide).inverse() * wide.transpose();
  const auto scores = scores_of("leverage", keys);
  for (Eigen::Index i = 0; i < wide.rows(); ++i)
    EXPECT_NEAR(scores[static_cast<std::size_t>(i)], projection(i, i), 1e-10);
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
  std::vector<double> gains(static_cast<std::size_t>(keys.rows()), -1);
  for (Eigen::Index taken = 0; taken < keys.rows(); ++taken) {
    Eigen::Index best = -1;
    double most = -std::numeric_limits<double>::infinity();
    for (Eigen::Index i = 0; i < keys.rows(); ++i) {
      if (gains[static_cast<std::size_t>(i)] >= 0) continue;
      const double gain = log_det(m + keys.row(i).transpose() * keys.row(i)) - log_det(m);
      if (gain > most + 1e-12) most = gain, best = i;
    }
    gains[static_cast<std::size_t>(best)] = most;
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

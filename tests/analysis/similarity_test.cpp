#include "analysis/similarity.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "tests/support/dense_algebra.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;

std::vector<double> as_list(const NormSummary& norms) {
  return {norms.min, norms.p05, norms.p25, norms.median, norms.p75, norms.p95, norms.max, norms.mean};
}

void expect_all_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "entry " << i;
}

TEST(HeadGeometry, MatchesNumPy) {
  const auto golden = read_goldens("geometry_goldens.json", "head");
  const HeadGeometry head =
      measure_head_geometry(sample_rows(161, 70, 24, 0.3), sample_rows(162, 210, 24, -0.1));
  expect_all_near({head.key_cosines.begin(), head.key_cosines.end()},
                  golden["key_cosines"].get<std::vector<double>>());
  expect_all_near({head.query_cosines.begin(), head.query_cosines.end()},
                  golden["query_cosines"].get<std::vector<double>>());
  expect_all_near(as_list(head.key_norms), golden["key_norms"].get<std::vector<double>>());
  expect_all_near(as_list(head.query_norms), golden["query_norms"].get<std::vector<double>>());
  EXPECT_NEAR(head.mean_cosine, golden["mean_cosine"].get<double>(), 1e-12);
  EXPECT_EQ(head.top_key, golden["top_key"].get<std::int64_t>());
  EXPECT_NEAR(head.top_key_query_cosine, golden["top_key_query_cosine"].get<double>(), 1e-12);
}

TEST(HeadGeometry, WorkedByHand) {
  RowMatrixF keys(3, 2), queries(1, 2);
  keys << 3, 0, 3, 0, 0, 3;  // mean (2, 1)
  queries << 0, -2;
  const HeadGeometry head = measure_head_geometry(keys, queries);
  EXPECT_NEAR(head.key_cosines[0], 2 / std::sqrt(5), 1e-15);
  EXPECT_NEAR(head.key_cosines[2], 1 / std::sqrt(5), 1e-15);
  EXPECT_EQ(head.top_key, 2);
  EXPECT_EQ(head.top_key_query_cosine, -1);
  EXPECT_NEAR(head.mean_cosine, -1 / std::sqrt(5), 1e-15);
  EXPECT_EQ(head.query_cosines[0], 1);
  EXPECT_EQ(head.key_norms.median, 3);
  EXPECT_EQ(head.query_norms.max, 2);
}

TEST(HeadGeometry, TopKeyIsTheOneThatThePolicyScoresHighest) {
  const auto policy = make_policy(parse_policy("keydiff"), 0);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const RowMatrixF keys = sample_rows(seed, 50, 6, 0.2);
    const std::vector<std::int32_t> positions(50);
    std::vector<double> scores(50);
    policy->score({.keys = keys, .values = RowMatrixF(0, 0), .positions = positions}, scores);
    const auto top = std::max_element(scores.begin(), scores.end()) - scores.begin();
    EXPECT_EQ(measure_head_geometry(keys, keys).top_key, top);
  }
}

TEST(HeadGeometry, TurnsAndScalesWithTheHead) {
  const RowMatrixF keys = sample_rows(1, 40, 8, 0.3), queries = sample_rows(2, 80, 8, -0.2);
  const MatrixXd rotation = random_rotation(3, 8);
  const auto before = measure_head_geometry(keys, queries);
  const auto after = measure_head_geometry((keys.cast<double>() * rotation * 4).cast<float>(),
                                           (queries.cast<double>() * rotation).cast<float>());
  EXPECT_LE((after.key_cosines - before.key_cosines).norm(), 1e-5);
  EXPECT_NEAR(after.mean_cosine, before.mean_cosine, 1e-6);
  EXPECT_NEAR(after.key_norms.p95, 4 * before.key_norms.p95, 1e-5);
  EXPECT_EQ(after.top_key, before.top_key);
}

TEST(HeadGeometry, EdgesOfTheInput) {
  const RowMatrixF keys = sample_rows(1, 5, 4);
  const auto alone = measure_head_geometry(keys, RowMatrixF(0, 4));
  EXPECT_TRUE(std::isnan(alone.mean_cosine) && std::isnan(alone.top_key_query_cosine));
  EXPECT_TRUE(std::isnan(alone.query_norms.median) && std::isnan(alone.query_norms.mean));
  EXPECT_EQ(alone.query_cosines.size(), 0);
  const auto same = measure_head_geometry(RowMatrixF::Ones(6, 4), RowMatrixF::Zero(2, 4));
  EXPECT_EQ(same.top_key, 0) << "the first of equal ones";
  EXPECT_EQ(same.mean_cosine, 0) << "a zero mean has no direction";
  EXPECT_THROW(measure_head_geometry(RowMatrixF(0, 4), keys), InvalidInput);
  EXPECT_THROW(measure_head_geometry(keys, keys.leftCols(3)), InvalidInput);
  RowMatrixF bad = keys;
  bad(2, 1) = std::numeric_limits<float>::infinity();
  EXPECT_THROW(measure_head_geometry(bad, keys), InvalidInput);
  EXPECT_THROW(measure_head_geometry(keys, bad), InvalidInput);
}

using Eigen::VectorXd;

void expect_near(const VectorXd& found, const nlohmann::json& expected) {
  ASSERT_EQ(static_cast<std::size_t>(found.size()), expected.size());
  for (Index i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i].get<double>(), 1e-12) << "entry " << i;
}

RowMatrixF golden_rows() {
  RowMatrixF rows = sample_rows(11, 60, 40, 0.3);
  rows.row(7).setZero();
  return rows;
}

TEST(Similarity, MatchesNumPy) {
  const auto golden = read_goldens("analysis_goldens.json", "cosines");
  const RowMatrixF rows = golden_rows();
  expect_near(mean_row(rows), golden["mean"]);
  expect_near(normalized_mean_row(rows), golden["normalized_mean"]);
  expect_near(median_row(rows), golden["median"]);
  expect_near(cosines_to(rows, mean_row(rows)), golden["to_mean"]);
  const RowMatrixD matrix = cosine_matrix(rows);
  expect_near(matrix.row(3).transpose(), golden["matrix_row_3"]);
  EXPECT_NEAR(matrix.sum(), golden["matrix_sum"].get<double>(), 1e-9);
  EXPECT_NEAR(pairwise_cosines(rows).mean, golden["mean_pairwise"].get<double>(), 1e-12);
}

TEST(Similarity, WorkedByHand) {
  RowMatrixF rows(4, 2);
  rows << 3, 4, 4, 3, -3, -4, 0, 0;
  const VectorXd cosines = cosines_to(rows, VectorXd::Unit(2, 0) * 10);
  EXPECT_DOUBLE_EQ(cosines[0], 0.6);
  EXPECT_DOUBLE_EQ(cosines[1], 0.8);
  EXPECT_DOUBLE_EQ(cosines[2], -0.6);
  EXPECT_EQ(cosines[3], 0) << "a zero row has cosine 0";
  // Pairs: 0.96, -1, -0.96 between the first three, 0 with the last; six pairs.
  EXPECT_NEAR(pairwise_cosines(rows).mean, (0.96 - 1 - 0.96) / 6, 1e-15);
  EXPECT_NEAR(cosine_matrix(rows)(0, 1), 0.96, 1e-15);
}

TEST(Similarity, MedianOfEvenCountIsTheMiddleOfTheTwo) {
  RowMatrixF rows(4, 1);
  rows << 10, 1, 3, 2;
  EXPECT_EQ(median_row(rows)[0], 2.5);
  EXPECT_EQ(median_row(rows.topRows(3))[0], 3);
}

TEST(Similarity, MatrixIsSymmetricWithUnitDiagonal) {
  const RowMatrixF rows = sample_rows(5, 77, 33);
  const RowMatrixD matrix = cosine_matrix(rows);
  EXPECT_EQ(matrix, matrix.transpose());
  EXPECT_LE((matrix.diagonal().array() - 1).abs().maxCoeff(), 1e-15);
  EXPECT_LE(matrix.maxCoeff(), 1);
}

TEST(Similarity, MeanPairwiseEqualsTheMatrixMean) {
  const RowMatrixF rows = sample_rows(6, 50, 20, 0.1);
  const RowMatrixD matrix = cosine_matrix(rows);
  EXPECT_NEAR(pairwise_cosines(rows).mean, (matrix.sum() - matrix.trace()) / (50.0 * 49), 1e-14);
}

TEST(Similarity, CosinesAreFreeOfScale) {
  const RowMatrixF rows = sample_rows(7, 30, 24, 0.2);
  const VectorXd anchor = mean_row(rows);
  const VectorXd cosines = cosines_to(rows, anchor);
  // Powers of two scale every float exactly, up to the ends of its range.
  for (const double scale : {0x1p100, 0x1p-100}) {
    const RowMatrixF scaled = rows * static_cast<float>(scale);
    EXPECT_LE((cosines_to(scaled, anchor * scale) - cosines).cwiseAbs().maxCoeff(), 1e-15);
  }
}

TEST(Similarity, ReadsSpacedRows) {
  const RowMatrixF rows = sample_rows(8, 20, 48);
  const RowMatrixF left = rows.leftCols(37);
  const VectorXd anchor = mean_row(left);
  EXPECT_EQ(mean_row(rows.leftCols(37)), anchor);
  EXPECT_EQ(cosines_to(rows.leftCols(37), anchor), cosines_to(left, anchor));
}

TEST(Similarity, NotFiniteRowsGiveNaNAndHarmNoOther) {
  RowMatrixF rows = sample_rows(9, 5, 20);
  const VectorXd anchor = VectorXd::Ones(20);
  const VectorXd clean = cosines_to(rows, anchor);
  rows(2, 3) = std::numeric_limits<float>::infinity();
  rows(4, 0) = std::numeric_limits<float>::quiet_NaN();
  const VectorXd cosines = cosines_to(rows, anchor);
  EXPECT_TRUE(std::isnan(cosines[2]));
  EXPECT_TRUE(std::isnan(cosines[4]));
  EXPECT_EQ(cosines[3], clean[3]);
  EXPECT_TRUE(std::isnan(cosine_matrix(rows)(0, 4)));
  EXPECT_TRUE(std::isnan(median_row(rows)[0]));
}

TEST(Similarity, FewRows) {
  const RowMatrixF none(0, 8);
  EXPECT_EQ(mean_row(none), VectorXd::Zero(8));
  EXPECT_EQ(cosines_to(none, VectorXd::Ones(8)).size(), 0);
  EXPECT_EQ(cosine_matrix(none).size(), 0);
  EXPECT_TRUE(std::isnan(pairwise_cosines(none).mean));
  EXPECT_EQ(pairwise_cosines(none).sum, 0);
  EXPECT_NEAR(pairwise_cosines(sample_rows(1, 1, 8)).sum, 1, 1e-15);
  EXPECT_TRUE(std::isnan(pairwise_cosines(sample_rows(1, 1, 8)).mean));
  EXPECT_THROW(cosines_to(none, VectorXd::Ones(7)), InvalidInput);
}

TEST(PairwiseCosines, OppositeRowsLeaveNothing) {
  for (const Eigen::Index n_pairs : {1, 2, 3, 5}) {  // with rows that are taken four at a time, and without
    RowMatrixF rows(2 * n_pairs, 3);
    for (Eigen::Index i = 0; i < n_pairs; ++i) {
      rows.row(2 * i) << 1, 3, 0.7F + static_cast<float>(i);
      rows.row(2 * i + 1) = -rows.row(2 * i);
    }
    EXPECT_EQ(pairwise_cosines(rows).sum, 0);
    EXPECT_EQ(normalized_mean_row(rows).norm(), 0);
  }
}

TEST(PairwiseCosines, AreOfAllPairs) {
  RowMatrixF rows = sample_rows(1, 30, 12, 0.2);
  rows.row(7).setZero();
  const RowMatrixD matrix = cosine_matrix(rows);
  EXPECT_NEAR(pairwise_cosines(rows).sum, matrix.sum(), 1e-10);
  EXPECT_NEAR(pairwise_cosines(rows).mean, (matrix.sum() - matrix.trace()) / (30.0 * 29), 1e-14);
  rows(3, 2) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(pairwise_cosines(rows).sum) && std::isnan(pairwise_cosines(rows).mean));
}

}  // namespace

}  // namespace keyscope::analysis

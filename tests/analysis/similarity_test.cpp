#include "analysis/similarity.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

void expect_near(const VectorXd& found, const nlohmann::json& expected) {
  ASSERT_EQ(static_cast<std::size_t>(found.size()), expected.size());
  for (Index i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[static_cast<std::size_t>(i)].get<double>(), 1e-12) << "entry " << i;
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
  EXPECT_NEAR(mean_pairwise_cosine(rows), golden["mean_pairwise"].get<double>(), 1e-12);
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
  EXPECT_NEAR(mean_pairwise_cosine(rows), (0.96 - 1 - 0.96) / 6, 1e-15);
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
  EXPECT_NEAR(mean_pairwise_cosine(rows), (matrix.sum() - matrix.trace()) / (50.0 * 49), 1e-14);
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
  EXPECT_TRUE(std::isnan(mean_pairwise_cosine(none)));
  EXPECT_TRUE(std::isnan(mean_pairwise_cosine(sample_rows(1, 1, 8))));
  EXPECT_THROW(cosines_to(none, VectorXd::Ones(7)), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis

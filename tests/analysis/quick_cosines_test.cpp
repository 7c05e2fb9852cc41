#include "analysis/quick_cosines.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double kUnit = 0x1p-24;  // how far float32 rounds at most, relative

std::vector<double> cosines_of(const MatrixView& rows, const VectorXd& anchor) {
  std::vector<double> cosines(rows.rows());
  quick_cosines(rows, row_moments(rows).inverse_norms, QuickAnchor(anchor), cosines);
  return cosines;
}

// The slow, obvious references, in long double.
using Wide = long double;

Wide plain_square(const RowMatrixF& rows, Index i) {
  Wide square = 0;
  for (Index j = 0; j < rows.cols(); ++j)
    square += static_cast<Wide>(rows(i, j)) * static_cast<Wide>(rows(i, j));
  return square;
}

Wide plain_cosine(const RowMatrixF& rows, Index i, const VectorXd& anchor) {
  Wide product = 0;
  Wide anchor_square = 0;
  for (Index j = 0; j < rows.cols(); ++j) {
    product += static_cast<Wide>(rows(i, j)) * static_cast<Wide>(anchor[j]);
    anchor_square += static_cast<Wide>(anchor[j]) * static_cast<Wide>(anchor[j]);
  }
  const Wide norms = std::sqrt(plain_square(rows, i) * anchor_square);
  return norms == 0 ? 0 : product / norms;
}

// That every number is within the bounds that the header states.
void expect_accurate(const RowMatrixF& rows, const char* what) {
  const RowMoments moments = row_moments(rows);
  for (Index j = 0; j < rows.cols(); ++j) {
    Wide sum = 0;
    Wide magnitudes = 0;
    for (Index i = 0; i < rows.rows(); ++i) {
      sum += static_cast<Wide>(rows(i, j));
      magnitudes += std::abs(static_cast<Wide>(rows(i, j)));
    }
    const Wide n = static_cast<Wide>(rows.rows());
    EXPECT_LE(std::abs(static_cast<Wide>(moments.mean[j]) - sum / n), 16 * kUnit * magnitudes / n)
        << what << ", " << rows.cols() << " columns, mean of column " << j;
  }
  const std::vector<double> cosines = cosines_of(rows, moments.mean);
  for (Index i = 0; i < rows.rows(); ++i) {
    const Wide norm = std::sqrt(plain_square(rows, i));
    const Wide inverse = norm == 0 ? 0 : 1 / norm;
    EXPECT_LE(std::abs(static_cast<Wide>(moments.inverse_norms[i]) - inverse), 4 * kUnit * inverse)
        << what << ", " << rows.cols() << " columns, row " << i;
    EXPECT_LE(std::abs(static_cast<Wide>(cosines[i]) - plain_cosine(rows, i, moments.mean)), 12 * kUnit)
        << what << ", " << rows.cols() << " columns, row " << i;
  }
}

TEST(QuickCosines, KeepTheirBoundsAtEveryWidth) {
  for (Index n_cols = 0; n_cols <= 70; ++n_cols)
    expect_accurate(sample_rows(static_cast<std::uint64_t>(n_cols) + 1, 37, n_cols, 0.1), "drawn");
  for (const Index n_cols : {80, 96, 127, 128, 129, 160, 256, 300})
    expect_accurate(sample_rows(2, 300, n_cols, 0.3), "drawn");
}

TEST(QuickCosines, KeepTheirBoundsOnHostileRows) {
  expect_accurate(sample_rows(3, 200, 128, 1000.0), "far from the origin, almost parallel");
  expect_accurate(sample_rows(4, 200, 128, 0, 3), "columns over forty octaves");
  RowMatrixF cancelling = sample_rows(5, 200, 128);
  for (Index j = 0; j < 128; j += 2) cancelling.col(j + 1) = cancelling.col(j) * -1.0000001F;
  cancelling.array() += 1e-7F;
  expect_accurate(cancelling, "products that cancel");
  RowMatrixF opposite(200, 64);
  opposite << sample_rows(6, 100, 64, 2.0), -sample_rows(6, 100, 64, 2.0);
  opposite.row(0) *= 1.0001F;
  expect_accurate(opposite, "a mean that cancels");
}

TEST(QuickCosines, KeepTheirBoundsBeyondTheRangeOfSquares) {
  const RowMatrixF rows = sample_rows(7, 50, 128, 0.2);
  for (const float scale : {0x1p-140F, 0x1p-70F, 0x1p-50F, 0x1p50F, 0x1p70F, 0x1p127F})
    expect_accurate(rows * scale, "scaled");
  RowMatrixF mixed = rows;
  for (Index i = 0; i < 50; ++i) mixed.row(i) *= std::exp2(static_cast<float>(4 * i - 98));
  mixed.row(20).setZero();
  expect_accurate(mixed, "of all magnitudes");
  EXPECT_EQ(cosines_of(mixed, VectorXd::Ones(128))[20], 0);
}

TEST(QuickCosines, EqualRowsComeOutEqualWhereverTheyStand) {
  const RowMatrixF row = sample_rows(8, 1, 100, 0.1);
  for (const float scale : {1.0F, 1e-30F}) {
    RowMatrixF rows = sample_rows(9, 603, 100, 0.3);
    rows.row(17).setConstant(1e25F);
    for (const Index i : {0, 16, 30, 255, 256, 599, 602}) rows.row(i) = row * scale;
    const std::vector<double> cosines = cosines_of(rows, VectorXd::LinSpaced(100, -1, 2));
    for (const std::size_t i : {16, 30, 255, 256, 599, 602}) EXPECT_EQ(cosines[i], cosines[0]) << "row " << i;
  }
}

TEST(QuickCosines, ReadSpacedRows) {
  const RowMatrixF rows = sample_rows(10, 40, 64);
  const RowMatrixF left = rows.leftCols(45);
  const RowMoments moments = row_moments(left);
  EXPECT_EQ(row_moments(rows.leftCols(45)).mean, moments.mean);
  EXPECT_EQ(row_moments(rows.leftCols(45)).inverse_norms, moments.inverse_norms);
  EXPECT_EQ(cosines_of(rows.leftCols(45), moments.mean), cosines_of(left, moments.mean));
}

TEST(QuickCosines, NotFiniteRowsGiveNaNAndHarmNoOther) {
  RowMatrixF rows = sample_rows(11, 20, 33);
  const VectorXd anchor = VectorXd::Ones(33);
  const std::vector<double> clean = cosines_of(rows, anchor);
  rows(2, 3) = std::numeric_limits<float>::infinity();
  rows(4, 32) = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> cosines = cosines_of(rows, anchor);
  EXPECT_TRUE(std::isnan(cosines[2]));
  EXPECT_TRUE(std::isnan(cosines[4]));
  EXPECT_EQ(cosines[3], clean[3]);
}

TEST(QuickCosines, OfNothingAndWithNothing) {
  const RowMatrixF none(0, 8);
  EXPECT_EQ(row_moments(none).mean, VectorXd::Zero(8));
  EXPECT_TRUE(cosines_of(none, VectorXd::Ones(8)).empty());
  for (const double cosine : cosines_of(sample_rows(12, 5, 8), VectorXd::Zero(8))) EXPECT_EQ(cosine, 0);
}

}  // namespace
}  // namespace keyscope::analysis

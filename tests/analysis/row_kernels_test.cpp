#include "analysis/row_kernels.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/matrix_view.hpp"
#include "base/errors.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

TEST(GramSum, EqualsThePlainProductAtEveryWidth) {
  for (const Eigen::Index n_cols : {1, 3, 4, 15, 16, 17, 33, 64}) {
    const RowMatrixF rows = sample_rows(1, 340, n_cols, 0.2);
    const VectorXd factors = VectorXd::LinSpaced(340, -1, 2);
    GramSum gram(n_cols);
    EXPECT_EQ(gram.matrix(), MatrixXd::Zero(n_cols, n_cols));
    gram.add_scaled(rows.topRows(7), factors.head(7));
    gram.add_scaled(rows.middleRows(7, 330), factors.segment(7, 330));  // whole tiles and a part of one
    gram.add_scaled(rows.middleRows(337, 0), VectorXd(0));
    gram.add_scaled(rows.bottomRows(3), factors.tail(3));  // of the tiles before nothing may be left
    const RowMatrixD scaled = factors.asDiagonal() * rows.cast<double>();
    const MatrixXd found = gram.matrix();
    EXPECT_LE((found - scaled.transpose() * scaled).cwiseAbs().maxCoeff(), 1e-12) << n_cols << " columns";
    EXPECT_EQ(found, found.transpose());
  }
}

TEST(GramSum, ReadsSpacedRows) {
  const RowMatrixF rows = sample_rows(4, 200, 48);
  const RowMatrixF left = rows.leftCols(37);
  GramSum spaced(37), dense(37);
  spaced.add_around(rows.leftCols(37), VectorXd::Ones(37));
  dense.add_around(left, VectorXd::Ones(37));
  EXPECT_EQ(spaced.matrix(), dense.matrix());
}

TEST(GramSum, TakesRowsAroundAnOriginTileByTile) {
  for (const Eigen::Index n_rows : {0, 1, 256, 703}) {
    const RowMatrixF rows = sample_rows(2, n_rows, 37, 0.5);
    const VectorXd origin = sample_rows(3, 1, 37).cast<double>().transpose();
    const RowMatrixD moved = rows.cast<double>().rowwise() - origin.transpose();
    GramSum gram(37);
    gram.add_around(rows, origin);
    EXPECT_LE((gram.row_sum() - moved.colwise().sum().transpose()).norm(), 1e-11) << n_rows << " rows";
    EXPECT_LE((gram.matrix() - moved.transpose() * moved).norm(), 1e-11) << n_rows << " rows";
  }
}

TEST(PackedRows, EqualsThePlainProductAtEveryEdge) {
  for (const Eigen::Index n_rows : {0, 1, 15, 16, 17, 50})
    for (const Eigen::Index n_vectors : {1, 3, 4, 5, 9})
      for (const Eigen::Index n_cols : {1, 7, 32}) {
        const RowMatrixD rows = sample_rows(1, n_rows, n_cols).cast<double>();
        const RowMatrixD vectors = sample_rows(2, n_vectors, n_cols).cast<double>();
        RowMatrixD products;
        PackedRows(rows).multiply(vectors, products);
        ASSERT_EQ(products.rows(), n_vectors);
        ASSERT_EQ(products.cols(), n_rows);
        if (n_rows == 0) continue;
        EXPECT_LE((products - vectors * rows.transpose()).cwiseAbs().maxCoeff(), 1e-13)
            << n_rows << " rows, " << n_vectors << " vectors of " << n_cols;
      }
}

TEST(PackedRows, StartsAtAnyWholeStrip) {
  const RowMatrixD rows = sample_rows(1, 50, 9).cast<double>();
  const PackedRows packed(rows);
  RowMatrixD all, some;
  packed.multiply(rows.topRows(5), all);
  for (const Eigen::Index first : {16, 48}) {
    packed.multiply(rows.topRows(5), some, first);
    EXPECT_EQ(some, all.rightCols(50 - first));
  }
}

TEST(PackedRows, TakesSomeRowsOrTheirColumns) {
  const RowMatrixF wide = sample_rows(1, 40, 50), vectors = sample_rows(2, 10, 37),
                   weights = sample_rows(3, 10, 33);
  const auto rows = wide.leftCols(37);  // spaced
  for (const std::size_t n : {0, 1, 3, 15, 16, 17, 33}) {
    std::vector<std::int32_t> which(n);
    for (std::size_t i = 0; i < n; ++i) which[i] = static_cast<std::int32_t>(7 * i % 40);
    const RowMatrixD chosen = rows(which, Eigen::all).cast<double>();
    RowMatrixD products, expected;
    PackedRows::of_rows(rows, which).multiply(vectors.cast<double>(), products);
    PackedRows(chosen).multiply(vectors.cast<double>(), expected);
    EXPECT_EQ(products, expected);
    const RowMatrixD factors = weights.leftCols(std::ssize(which)).cast<double>();
    PackedRows::of_columns(rows, which).multiply(factors, products);
    PackedRows(RowMatrixD(chosen.transpose())).multiply(factors, expected);
    EXPECT_EQ(products, expected);
  }
}

using Eigen::Index;

// The slow, obvious reference.
double plain_product(const RowMatrixF& rows, Index i, const std::vector<double>& vector) {
  double sum = 0;
  for (Index j = 0; j < rows.cols(); ++j) sum += static_cast<double>(rows(i, j)) * vector[j];
  return sum;
}

TEST(RowProducts, EqualsThePlainLoopAtEveryWidth) {
  for (Index n_cols = 0; n_cols <= 70; ++n_cols) {
    const RowMatrixF rows = sample_rows(static_cast<std::uint64_t>(n_cols) + 1, 9, n_cols, 0.1);
    const auto vector = sample_uniform(99, n_cols);
    std::vector<double> products(9), squares(9), sum(vector.size(), 0.5);
    row_products(rows, vector, products, squares);
    add_rows(rows, sum);
    const std::vector<double> divisors{1, -2, 0.5, 100, 3, 1, 1, 7, std::numeric_limits<double>::infinity()};
    std::vector<double> divided_sum(vector.size(), 0.5);
    add_divided_rows(rows, divisors, divided_sum);
    for (Index i = 0; i < 9; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_NEAR(products[at], plain_product(rows, i, vector), 1e-13) << n_cols << " columns, row " << i;
      EXPECT_NEAR(squares[at], rows.row(i).cast<double>().squaredNorm(), 1e-13);
    }
    const VectorXd by = Eigen::Map<const VectorXd>(divisors.data(), std::ssize(divisors)).cwiseInverse();
    for (Index j = 0; j < n_cols; ++j) {
      EXPECT_NEAR(sum[j], 0.5 + rows.col(j).cast<double>().sum(), 1e-13);
      EXPECT_NEAR(divided_sum[j], 0.5 + rows.col(j).cast<double>().dot(by), 1e-13);
    }
  }
}

TEST(RowProducts, KeepsFloat64ThroughCancellation) {
  RowMatrixF rows(1, 64);
  for (Index j = 0; j < 64; ++j) rows(0, j) = j % 2 == 0 ? 16777216.0F : -16777215.0F;
  const std::vector<double> ones(64, 1.0);
  double product = 0, square = 0;
  row_products(rows, ones, {&product, 1}, {&square, 1});
  EXPECT_EQ(product, 32);
}

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FiniteRows, NamesTheFirstOffender) {
  RowMatrixF rows = RowMatrixF::Constant(3, 40, std::numeric_limits<float>::max());
  rows(0, 0) = -std::numeric_limits<float>::max();
  EXPECT_NO_THROW(require_finite(rows, "keys"));
  rows(2, 39) = -std::numeric_limits<float>::infinity();
  EXPECT_THAT([&] { require_finite(rows, "keys"); },
              ThrowsMessage<InvalidInput>(HasSubstr("keys: row 2, column 39 is -inf")));
  rows(1, 5) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT([&] { require_finite(rows, "keys"); },
              ThrowsMessage<InvalidInput>(HasSubstr("row 1, column 5 is nan")));
  EXPECT_NO_THROW(require_finite(RowMatrixF(0, 3), "keys"));
  for (Index at = 0; at < 70; ++at) {  // in every lane, in every chain, and in what is left
    RowMatrixF row = RowMatrixF::Ones(1, 70);
    row(0, at) = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(require_finite(row, "keys"), InvalidInput) << at;
  }
  EXPECT_NO_THROW(require_finite(rows.leftCols(5), "keys")) << "spaced";
  EXPECT_THROW(require_finite(rows.leftCols(6), "keys"), InvalidInput);
}

}  // namespace

}  // namespace keyscope::analysis

#include "analysis/row_products.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

// The slow, obvious reference.
double plain_product(const RowMatrixF& rows, Index i, const std::vector<double>& vector) {
  double sum = 0;
  for (Index j = 0; j < rows.cols(); ++j)
    sum += static_cast<double>(rows(i, j)) * vector[static_cast<std::size_t>(j)];
  return sum;
}

TEST(RowProducts, EqualsThePlainLoopAtEveryWidth) {
  for (Index n_cols = 0; n_cols <= 70; ++n_cols) {
    const RowMatrixF rows = sample_rows(static_cast<std::uint64_t>(n_cols) + 1, 9, n_cols, 0.1);
    const auto vector = sample_uniform(99, static_cast<std::size_t>(n_cols));
    std::vector<double> products(9), squares(9), sum(vector.size(), 0.5);
    row_products(rows, vector, products, squares);
    add_rows(rows, sum);
    for (Index i = 0; i < 9; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_NEAR(products[at], plain_product(rows, i, vector), 1e-13) << n_cols << " columns, row " << i;
      EXPECT_NEAR(squares[at], rows.row(i).cast<double>().squaredNorm(), 1e-13);
    }
    for (Index j = 0; j < n_cols; ++j)
      EXPECT_NEAR(sum[static_cast<std::size_t>(j)], 0.5 + rows.col(j).cast<double>().sum(), 1e-13);
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

}  // namespace
}  // namespace keyscope::analysis

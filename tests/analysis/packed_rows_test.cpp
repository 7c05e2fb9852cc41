#include "analysis/packed_rows.hpp"

#include <gtest/gtest.h>

#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

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

}  // namespace
}  // namespace keyscope::analysis

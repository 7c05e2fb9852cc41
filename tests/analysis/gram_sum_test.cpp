#include "analysis/gram_sum.hpp"

#include <gtest/gtest.h>

#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

TEST(GramSum, EqualsThePlainProductAtEveryWidth) {
  for (const Eigen::Index n_cols : {1, 3, 4, 15, 16, 17, 33, 64}) {
    const RowMatrixD rows = sample_rows(1, 40, n_cols, 0.2).cast<double>();
    GramSum gram(n_cols);
    EXPECT_EQ(gram.matrix(), Eigen::MatrixXd::Zero(n_cols, n_cols));
    gram.add(rows.topRows(7));
    gram.add(rows.middleRows(7, 30));  // larger than the tile before
    gram.add(rows.middleRows(37, 0));
    gram.add(rows.bottomRows(3));  // and smaller: nothing of the last one may be left
    const Eigen::MatrixXd found = gram.matrix();
    EXPECT_LE((found - rows.transpose() * rows).cwiseAbs().maxCoeff(), 1e-13) << n_cols << " columns";
    EXPECT_EQ(found, found.transpose());
  }
}

TEST(GramSum, TakesRowsAroundAnOriginTileByTile) {
  for (const Eigen::Index n_rows : {0, 1, 256, 700}) {
    const RowMatrixF rows = sample_rows(2, n_rows, 20, 0.5);
    const Eigen::VectorXd origin = sample_rows(3, 1, 20).cast<double>().transpose();
    const RowMatrixD moved = rows.cast<double>().rowwise() - origin.transpose();
    GramSum gram(20);
    gram.add_around(rows, origin);
    EXPECT_LE((gram.matrix() - moved.transpose() * moved).norm(), 1e-11) << n_rows << " rows";
  }
}

}  // namespace
}  // namespace keyscope::analysis

#include "analysis/row_kernels.hpp"

#include <gtest/gtest.h>

#include "sample_rows.hpp"

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
  for (const Eigen::Index n_rows : {0, 1, 256, 700}) {
    const RowMatrixF rows = sample_rows(2, n_rows, 20, 0.5);
    const VectorXd origin = sample_rows(3, 1, 20).cast<double>().transpose();
    const RowMatrixD moved = rows.cast<double>().rowwise() - origin.transpose();
    GramSum gram(20);
    gram.add_around(rows, origin);
    EXPECT_LE((gram.matrix() - moved.transpose() * moved).norm(), 1e-11) << n_rows << " rows";
  }
}

}  // namespace
}  // namespace keyscope::analysis

#pragma once

#include <span>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Cosines of rows, in float64. A row (or anchor) of norm zero has no direction: its cosine with anything,
// itself included, is defined as 0. A row that is not finite gives a NaN cosine; nothing here throws on it.

// The mean of the rows; zero for no rows. The anchor of KeyDiff's experiments (arXiv 2504.15364, Section 4).
//   rows: (n_rows, n_cols); result (n_cols)
Eigen::VectorXd mean_row(const MatrixView& rows);

// The mean of the rows at unit norm, a zero row counting as zero. The anchor of Eq. 8.
Eigen::VectorXd normalized_mean_row(const MatrixView& rows);

// The median of each coordinate; of an even number of rows, the mean of the two middle values. A coordinate
// with a NaN has median NaN; zero for no rows.
Eigen::VectorXd median_row(const MatrixView& rows);

// Norm of every row.
Eigen::VectorXd row_norms(const MatrixView& rows);

// Each row at unit norm, a zero row as it is.
RowMatrixD unit_rows(const MatrixView& rows);

// Cosine of two vectors of one size.
double cosine(const Eigen::VectorXd& a, const Eigen::VectorXd& b);

// Cosine of every row with `anchor`.
//   rows: (n_rows, n_cols); anchor: (n_cols); result (n_rows), within [-1, 1]
//   throws InvalidInput where the widths differ
Eigen::VectorXd cosines_to(const MatrixView& rows, const Eigen::VectorXd& anchor);

// Cosine of every pair of rows: (n_rows, n_rows), symmetric. Fig. 2.
RowMatrixD cosine_matrix(const MatrixView& rows);

// Mean of cos(row_i, row_j) over i != j, in O(n_rows * n_cols); NaN for fewer than two rows.
double mean_pairwise_cosine(const MatrixView& rows);

}  // namespace keyscope::analysis

#pragma once

#include <cstdint>
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

// Of the cosines of every row with every row, in O(n_rows * n_cols).
struct PairwiseCosines {
  // Over all pairs, i = j included, as ‖Σ k̂‖²: what Eq. A.2 of KeyDiff (arXiv 2504.15364) minimises over all
  // sets of N keys.
  double sum = 0;
  double mean = 0;  // over i != j; NaN for fewer than two rows
};
PairwiseCosines pairwise_cosines(const MatrixView& rows);

// How the norms of rows are spread; NaN for no rows. Quantiles as `quantiles` defines them.
struct NormSummary {
  double min = 0, p05 = 0, p25 = 0, median = 0, p75 = 0, p95 = 0, max = 0;
  double mean = 0;
};

//   rows: (n_rows, n_cols), finite
//   throws InvalidInput otherwise
NormSummary summarise_norms(const MatrixView& rows);

// Where the keys and queries of one KV head lie in relation to their means: KeyDiff (arXiv 2504.15364),
// Fig. 13 to 16. A vector of norm zero has cosine 0 with everything. What needs queries is NaN, or has no
// entries, without them.
struct HeadGeometry {
  Eigen::VectorXd key_cosines;      // (n_keys) cos(k_i, k̄), k̄ the mean key: Fig. 13
  Eigen::VectorXd query_cosines;    // (n_queries) cos(q_i, q̄), q̄ the mean query
  double mean_cosine = 0;           // cos(k̄, q̄): Fig. 14
  NormSummary key_norms;            // Fig. 15
  NormSummary query_norms;          // Fig. 15
  std::int64_t top_key = 0;         // the row that KeyDiff scores highest, the first of equal ones
  double top_key_query_cosine = 0;  // cos(that key, q̄): Fig. 16
};

// The key that KeyDiff, whose score is the negative cosine, scores highest; the first of equal ones.
//   key_cosines: (n_keys) cos(k_i, k̄), at least one
Eigen::Index top_key(const Eigen::VectorXd& key_cosines);

//   keys: (n_keys, head_dim), at least one; queries: (n_queries, head_dim) of all of the group's query heads
//   throws InvalidInput on no keys, widths that differ, or anything that is not finite
HeadGeometry measure_head_geometry(const MatrixView& keys, const MatrixView& queries);

}  // namespace keyscope::analysis

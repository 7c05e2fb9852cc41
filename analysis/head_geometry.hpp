#pragma once

#include <cstdint>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

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

//   keys: (n_keys, head_dim), at least one; queries: (n_queries, head_dim) of all of the group's query heads
//   throws InvalidInput on no keys, widths that differ, or anything that is not finite
HeadGeometry measure_head_geometry(const MatrixView& keys, const MatrixView& queries);

}  // namespace keyscope::analysis

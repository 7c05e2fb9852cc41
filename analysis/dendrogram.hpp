#pragma once

#include <cstdint>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// Two clusters that become one. Clusters go by number: below n_rows each is a row, n_rows + k is what merge k
// made.
struct Merge {
  std::int32_t first = 0, second = 0;  // first < second
  float height = 0;                    // the distance between them: mean over all pairs of their rows
  std::int32_t n_rows = 0;             // of both together
  bool operator==(const Merge&) const = default;
};

struct Dendrogram {
  std::vector<Merge> merges;         // n_rows - 1 of them, heights ascending; none for fewer than two rows
  std::vector<std::int32_t> leaves;  // the rows, so that every cluster's stand side by side
};

// Average linkage (UPGMA), exact, by chains of nearest neighbours: O(n²) time, no memory besides the
// distances. Murtagh, "A survey of recent advances in hierarchical clustering algorithms", Computer Journal
// 26 (1983); Müllner, "Modern hierarchical, agglomerative clustering algorithms", arXiv 1109.2378, Fig. 3.
// The merges are those of scipy.cluster.hierarchy.linkage(method="average").
//
// Of equal distances the row nearest to the chain's last link comes first, then the one with the smallest
// number: equal input gives equal output. Leaves: of two clusters that merge, the one that holds the smaller
// row number stands first; no further ordering within the tree is sought.
//   distances: of rows (0, 1), (0, 2), …, (1, 2), …: n_rows (n_rows - 1) / 2 of them, finite; used up
//   accuracy: averages are rounded to float32, so that a height is within about its depth in the tree times
//   2^-24, relative
//   throws InvalidInput on another number of distances, or on one that is NaN or infinite
Dendrogram average_linkage(std::vector<float> distances, Eigen::Index n_rows);

// 1 - cosine of every pair of rows, in the order that average_linkage takes: between 0 and 2. A zero row has
// no direction and stands at 1 from everything, as cosines are 0 in `similarity`; a row that is not finite
// stands at 2, the farthest.
//   rows: (n_rows, n_cols); memory: 4 bytes a pair
std::vector<float> cosine_distances(const MatrixView& rows);

}  // namespace keyscope::analysis

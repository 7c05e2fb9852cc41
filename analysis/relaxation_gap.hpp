#pragma once

#include <cstdint>
#include <vector>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

struct SearchOptions {
  // Up to this many sets of the budget's size and beginnings of such, C(n_keys + 1, N), all are tried.
  std::int64_t max_subsets = 200'000;
  std::int64_t max_sweeps = 100;
};

// How far KeyDiff's relaxation stays from the problem that it relaxes. The objective is
// `pairwise_cosines(…).sum`.
struct RelaxationGap {
  std::vector<std::int32_t> seed;  // what Eq. 8 retains, with the mean of all keys at unit norm: ascending
  std::vector<std::int32_t> best;  // the best set found, ascending; the seed if none is better
  double seed_objective = 0;
  double best_objective = 0;  // never above the seed's
  bool exhaustive = false;    // all sets were tried: `best` is an optimum
  bool converged = false;     // the search ended by itself: the last sweep found no exchange worth making
  std::int64_t n_sweeps = 0;
  std::int64_t n_exchanges = 0;

  double gap() const { return seed_objective - best_objective; }
};

// Searches the sets of N keys for a low Σ_{i,j in S} cos(k_i, k_j) = ‖Σ_S k̂‖². Of few sets all are tried, the
// first of equal ones in lexicographic order. Of many, the seed is improved by exchanges of a retained key
// for an evicted one, each made only where it lowers the objective. One sweep offers the retained keys with
// the largest product with Σ_S k̂, in that order, for the evicted keys with the smallest, one for one; where
// none of these helps, the best exchange among the first √n of both. O(n_keys · head_dim) a sweep beside two
// sorts, and no chance in it. What it finds is an upper bound of the optimum.
//   keys: (n_keys, head_dim), finite, at least one; a key of norm zero counts as zero; budget >= 1
//   throws InvalidInput otherwise, on max_subsets < 0 and on max_sweeps < 0
//   source: KeyDiff (arXiv 2504.15364), Eq. A.2 and its relaxation A.3, which Eq. 8 solves
RelaxationGap relaxation_gap(const MatrixView& keys, std::int64_t budget, const SearchOptions& options = {});

}  // namespace keyscope::analysis

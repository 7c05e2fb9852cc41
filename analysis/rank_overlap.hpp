#pragma once

#include <cstdint>
#include <span>

namespace keyscope::analysis {

// Rank-biased overlap of two rankings, extrapolated to all depths from what the lists show: RBO_EXT. The
// agreement of the first d entries, |A ∩ B| / d, is averaged over d with weights (1 - p) p^(d-1), so that the
// first 1/(1-p) entries count most; beyond its end a list is taken to agree at the rate it last had. 1 for
// equal rankings, 0 for disjoint ones. Lists may differ in length. NaN where either is empty: there is no
// rate to go on with. Where `jaccard` compares sets, this compares orders.
//   a, b: items, best first, none twice in one list; 0 < p < 1
//   throws InvalidInput otherwise
//   source: Webber, Moffat and Zobel, ACM Trans. Inf. Syst. 28(4), 2010, Eq. 32
double rank_biased_overlap(std::span<const std::int32_t> a, std::span<const std::int32_t> b, double p);

}  // namespace keyscope::analysis

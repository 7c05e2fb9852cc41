#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// KeyDiff (arXiv 2504.15364): the keys least similar to an anchor stay.
//   anchor=mean            the mean of the raw keys: the paper's experiments
//          normalized-mean the mean of the keys at unit norm: Eq. 8
//          median          the median of each coordinate: Table 15
//          pairwise        -Σ_j cos(k_i, k_j), j = i included: Eq. 7; with metric=cosine only
//   metric=cosine          -cos(k, a)
//          dot             -k·a: Table 16
//          euclidean       ‖k - a‖: Table 16
//   recent=p               the most recent round(p·N) rows stay and count within N; the anchor is still over
//   all
//                          rows: Table 14, Appendix E
// A key or anchor of norm zero has cosine 0: it scores 0, above keys that point along the anchor.
PolicyDefinition keydiff_definition();

}  // namespace keyscope::analysis

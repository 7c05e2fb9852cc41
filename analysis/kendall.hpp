#pragma once

#include <span>

#include "analysis/rank_correlation.hpp"

namespace keyscope::analysis {

struct KendallCorrelation {
  double tau;  // NaN unless the status is kDefined
  CorrelationStatus status;
};

// Kendall's τ-b: (C - D) / √((C + D + Tx) (C + D + Ty)) over all pairs of places, C of which x and y order
// alike, D the other way round, Tx tied in x alone and Ty in y alone. Where it does not exist, NaN and the
// reason. Infinities are the extremes they are. In O(n log n).
//   throws InvalidInput where the sizes differ
//   source: Kendall, Biometrika 33 (1945); counted as by Knight, J. Am. Stat. Assoc. 61 (1966)
KendallCorrelation kendall(std::span<const double> x, std::span<const double> y);

}  // namespace keyscope::analysis

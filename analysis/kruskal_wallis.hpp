#pragma once

#include <cstdint>
#include <span>

#include "analysis/rank_correlation.hpp"

namespace keyscope::analysis {

struct KruskalWallis {
  double statistic = 0;  // H, corrected for ties; NaN unless the status is kDefined, as are the next two
  double epsilon_squared = 0;  // H / (n - 1): the share of the ranks' variance that lies between the groups
  double p_value = 0;          // how often groups drawn at random differ as much
  std::int64_t n = 0;
  int n_groups = 0;  // that have a member
  CorrelationStatus status = CorrelationStatus::kEmpty;
};

// Whether values differ from group to group, by their ranks. ε² is 0 where all groups have the same mean rank
// and 1 where groups explain every rank; without any difference it is (n_groups - 1) / (n - 1) on average,
// not 0, which is why a p value stands beside it. That one is by permutation, since groups may be too small
// for the χ² law: of n_permutations random orders of the values, (1 + those with an H at least as large) / (1
// + n_permutations). Shuffles take their numbers from SplitMix64's stream from the seed, and are the same on
// every platform. Values that are all equal, or of one group, have no difference: kConstant.
//   values, groups: of the same number; groups: whole numbers from 0
//   throws InvalidInput where the sizes differ, or a group is negative
//   source: Kruskal and Wallis, J. Am. Stat. Assoc. 47 (1952); ε² as by Kelley, PNAS 21 (1935), for ranks;
//   p as by Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010)
KruskalWallis kruskal_wallis(std::span<const double> values, std::span<const std::int32_t> groups,
                             int n_permutations = 999, std::uint64_t seed = 0);

}  // namespace keyscope::analysis

#pragma once

#include <span>
#include <vector>

namespace keyscope::analysis {

enum class CorrelationStatus {
  kDefined,
  kEmpty,       // no pairs
  kConstant,    // all ranks of one input are equal: no correlation exists (one pair included)
  kNotANumber,  // a NaN has no rank
};

struct RankCorrelation {
  double rho;  // NaN unless the status is kDefined
  CorrelationStatus status;
};

// Ranks from 1, equal values sharing the mean of their ranks. Infinities rank as the extremes they are.
//   values: no NaN, otherwise the ranks mean nothing
std::vector<double> average_ranks(std::span<const double> values);

// Spearman's ρ: Pearson's correlation of average ranks. Where it does not exist, NaN and the reason.
//   throws InvalidInput where the sizes differ
//   source: KeyDiff (arXiv 2504.15364), Appendix C.4, Table 3
RankCorrelation spearman(std::span<const double> x, std::span<const double> y);

}  // namespace keyscope::analysis

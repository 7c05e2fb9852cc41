#pragma once

#include <span>

namespace keyscope::analysis {

// How unequally non-negative amounts are spread over their positions. Both are NaN where there are none, or
// where all of them are zero.
//   throws InvalidInput on an amount that is negative or not finite

// Gini coefficient Σ_i (2i - n - 1) x_(i) / (n Σ x), amounts ascending, i from 1: 0 where all are equal,
// 1 - 1/n where one has everything.
double gini(std::span<const double> amounts);

// Share of the sum that the largest ceil(fraction · n) amounts have.
//   throws InvalidInput where the fraction is not in (0, 1]
double top_share(std::span<const double> amounts, double fraction);

}  // namespace keyscope::analysis

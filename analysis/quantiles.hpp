#pragma once

#include <span>
#include <vector>

namespace keyscope::analysis {

// Quantiles by linear interpolation between order statistics: the one for p lies at (n - 1) p of the n sorted
// values, counted from 0. NaN for no values.
//   values: not NaN; probabilities: within [0, 1]; result: one per probability
//   throws InvalidInput otherwise
//   source: Hyndman and Fan, Am. Stat. 50 (1996), definition 7: NumPy's default
std::vector<double> quantiles(std::span<const double> values, std::span<const double> probabilities);

}  // namespace keyscope::analysis

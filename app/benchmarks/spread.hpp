#pragma once

#include <optional>
#include <vector>

namespace keyscope::benchmarks {

// What repeated measurements of one quantity came to. Other work on the machine only ever adds time, so the
// least stands beside the median.
struct Spread {
  double median = 0, least = 0, most = 0;
};

// The median of an even number of values is the mean of the two in the middle; empty for no values.
std::optional<Spread> spread_of(std::vector<double> values);

}  // namespace keyscope::benchmarks

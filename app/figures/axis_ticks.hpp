#pragma once

#include <string>
#include <vector>

namespace keyscope::figures {

struct Tick {
  double value = 0;
  std::string label;
};

// Ticks at steps of 1, 2 or 5 times a power of ten inside [low, high], at most about `n_wanted` of them,
// and two at least: one alone gives no scale. A range of no width, or one that is not finite, has one at
// most.
//   integers: for counted things such as token positions: no step below 1, even where that leaves one tick
std::vector<Tick> linear_ticks(double low, double high, int n_wanted, bool integers = false);

// Powers of ten inside [low, high], every k-th where there are many; needs 0 < low <= high, else none.
std::vector<Tick> logarithmic_ticks(double low, double high, int n_wanted);

}  // namespace keyscope::figures

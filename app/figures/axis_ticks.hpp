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

// "1,024": groups of thousands.
std::string format_count(long long count);

// "0.913", "−0.200": with a minus sign, and none before what is rounded to zero.
std::string format_signed(double value, int decimals);

// "−1.234e−05": with minus signs.
std::string format_value(double value, int significant_digits = 4);

// "12.3 %" of a share of 0.123; "< 0.1 %" where rounding would leave nothing of what there is.
std::string format_share(double share, int decimals);

}  // namespace keyscope::figures

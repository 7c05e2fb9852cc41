#pragma once

#include <string>

namespace keyscope {

// Intervals as people read them are never rounded to nothing: the unit of the last digit is no larger than
// the interval is wide, so that its ends differ in print wherever they differ.

// How many decimals that takes, and no fewer than `at_least`: these for an interval of one point, or of none
// (NaN).
int interval_decimals(double low, double high, int at_least);

// As number_text, with as many decimals at least, or of a tiny number with its digits up to there.
std::string number_text(double value, int at_least);

// A mean with its interval, all to the digits that the interval takes: "0.98724 [0.98712, 0.98734]"; the mean
// alone where there is no interval, "–" where there is no mean. Digits as number_text has them, or so many
// decimals at least.
std::string mean_text(double mean, double low, double high);
std::string mean_text(double mean, double low, double high, int at_least);

}  // namespace keyscope

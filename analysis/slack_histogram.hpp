#pragma once

#include <cstdint>
#include <vector>

#include <Eigen/Core>

namespace keyscope::analysis {

// How the slacks of a bound are spread over any number of pairs, in some 20 kB: counts in bins of a sixteenth
// of an octave, for either sign, from 2^-40 to 2^40. What is smaller counts as zero, what is larger goes into
// the outermost bins.
class SlackHistogram {
 public:
  SlackHistogram();

  // Adds every entry but +inf, which marks pairs that the bound does not apply to. No entry may be NaN.
  void add(const Eigen::ArrayXd& slacks);

  // Adds all that another one has counted: the two as if they had been one.
  void add(const SlackHistogram& other);

  // How many slacks are below `slack`, those of its own bin in proportion; exact at the edges of bins and
  // outside the least and the largest.
  double count_below(double slack) const;

  // The number of slacks added.
  std::int64_t count() const { return count_; }

  // The smallest slack that at least the share p of all is not above: exact for the least and the largest,
  // elsewhere the middle of its bin, 1/32 of the value or 2^-40 off at most within the bins' range. NaN where
  // there are none.
  //   throws InvalidInput where p is not in [0, 1]
  double quantile(double p) const;

 private:
  friend class SlackCounter;
  std::vector<std::int64_t> counts_;  // negative slacks descending in magnitude, zero, positive ascending
  std::int64_t count_ = 0;
  double min_;
  double max_;
};

// Counts slacks for a histogram of them all: four times its memory, and several times as fast.
class SlackCounter {
 public:
  SlackCounter();

  // As SlackHistogram::add does.
  void add(const double* slacks, Eigen::Index n);
  SlackHistogram histogram() const;

 private:
  std::vector<std::int64_t> counts_;  // a table a lane
  double least_, largest_;
};

}  // namespace keyscope::analysis

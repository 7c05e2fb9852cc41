#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keyscope::evaluation {

// The scored positions of a window in bins of as equal size as whole positions allow, in order.
struct PositionBins {
  std::int64_t n_positions = 0;  // at least n_bins
  std::int64_t n_bins = 1;       // at least 1

  // Bin b holds scored positions begin(b), …, begin(b + 1) - 1, counted from 0.
  std::int64_t begin(std::int64_t bin) const { return bin * n_positions / n_bins; }
  std::int64_t size(std::int64_t bin) const { return begin(bin + 1) - begin(bin); }
};

// Mean of each bin.
//   values: (n_positions)
std::vector<double> bin_means(std::span<const double> values, const PositionBins& bins);

// The mean over all positions, from those of the bins.
double mean_of_bins(std::span<const double> means, const PositionBins& bins);

}  // namespace keyscope::evaluation

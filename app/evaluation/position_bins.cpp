#include "app/evaluation/position_bins.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {

std::vector<double> bin_means(std::span<const double> values, const PositionBins& bins) {
  if (bins.n_bins < 1 || bins.n_positions < bins.n_bins || std::ssize(values) != bins.n_positions)
    throw InvalidInput(
        fmt::format("{} values in {} bins of {} positions: expected a value each, and a position "
                    "for every bin",
                    values.size(), bins.n_bins, bins.n_positions));
  std::vector<double> means;
  for (std::int64_t bin = 0; bin < bins.n_bins; ++bin) {
    double sum = 0;
    for (std::int64_t at = bins.begin(bin); at < bins.begin(bin + 1); ++at)
      sum += values[static_cast<std::size_t>(at)];
    means.push_back(sum / static_cast<double>(bins.size(bin)));
  }
  return means;
}

double mean_of_bins(std::span<const double> means, const PositionBins& bins) {
  double sum = 0;
  for (std::int64_t bin = 0; bin < bins.n_bins; ++bin)
    sum += means[static_cast<std::size_t>(bin)] * static_cast<double>(bins.size(bin));
  return sum / static_cast<double>(bins.n_positions);
}

}  // namespace keyscope::evaluation

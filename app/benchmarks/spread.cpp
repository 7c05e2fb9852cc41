#include "app/benchmarks/spread.hpp"

#include <algorithm>

namespace keyscope::benchmarks {

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return Spread{median, values.front(), values.back()};
}

}  // namespace keyscope::benchmarks

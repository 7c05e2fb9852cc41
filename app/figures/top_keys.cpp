#include "app/figures/top_keys.hpp"

#include <algorithm>
#include <numeric>

#include "analysis/similarity.hpp"

namespace keyscope::figures {

std::vector<std::int32_t> top_keydiff_keys(const MatrixView& keys, std::size_t count) {
  const Eigen::VectorXd mean = analysis::mean_row(keys);
  if (keys.rows() == 0 || mean.norm() == 0 || !mean.allFinite()) return {};
  const Eigen::VectorXd cosines = analysis::cosines_to(keys, mean);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(keys.rows()));
  std::iota(positions.begin(), positions.end(), 0);
  count = std::min(count, positions.size());
  std::ranges::partial_sort(positions, positions.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](std::int32_t a, std::int32_t b) {
                              return cosines[a] != cosines[b] ? cosines[a] < cosines[b] : a < b;
                            });
  positions.resize(count);
  return positions;
}

}  // namespace keyscope::figures

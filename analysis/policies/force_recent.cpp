#include "analysis/policies/force_recent.hpp"

#include <algorithm>

namespace keyscope::analysis {

void force_recent(std::int64_t n_recent, std::int64_t budget, std::span<std::uint8_t> forced) {
  const auto n_rows = static_cast<std::int64_t>(forced.size());
  std::fill(forced.end() - std::min({n_recent, budget, n_rows}), forced.end(), std::uint8_t{1});
}

}  // namespace keyscope::analysis

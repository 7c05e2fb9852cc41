#include "capture/inference/visible_rows.hpp"

#include <algorithm>
#include <cstddef>

namespace keyscope::capture {

VisibleRows visible_rows(std::span<const std::int32_t> positions, std::int64_t n_queries,
                         const AttentionRules& rules) {
  VisibleRows visible;
  const std::int64_t n_old = static_cast<std::int64_t>(positions.size()) - n_queries;
  for (std::int64_t i = 0; i < n_queries; ++i) {
    const std::int64_t own = n_old + i;
    const std::int64_t oldest = rules.oldest_visible(positions[static_cast<std::size_t>(own)]);
    const auto begin = std::lower_bound(positions.begin(), positions.end(), oldest);
    visible.begin.push_back(static_cast<std::int32_t>(begin - positions.begin()));
    visible.end.push_back(static_cast<std::int32_t>(own + 1));
  }
  return visible;
}

}  // namespace keyscope::capture

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/model/attention_rules.hpp"

namespace keyscope::capture {

// Half-open ranges of cached rows that queries see, per query.
struct VisibleRows {
  std::vector<std::int32_t> begin, end;
};

// What the queries of the last n_queries rows see of a KV head's rows: theirs and older ones, as far as the
// window reaches.
//   positions: (n_rows) true positions, ascending
VisibleRows visible_rows(std::span<const std::int32_t> positions, std::int64_t n_queries,
                         const AttentionRules& rules);

}  // namespace keyscope::capture

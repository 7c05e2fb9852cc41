#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keyscope::results {

// N for prompts of many lengths: the same number of rows for all of them, or a share of each one's tokens.
struct Budget {
  std::int64_t rows = 0;  // 0: `share` holds
  double share = 0.25;    // of the prompt's tokens, 0 < share <= 1

  // N for a prompt of n_tokens: the share of it, half up, at least 1.
  std::int64_t rows_for(std::int64_t n_tokens) const;

  // As parse_budget reads it.
  std::string text() const;
};

// "64": rows; "0.25" or "25%": a share.
//   throws UsageError on anything else
Budget parse_budget(std::string_view text);

}  // namespace keyscope::results

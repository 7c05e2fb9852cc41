#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keyscope::analysis {

// N, the rows that a policy keeps per KV head: the same number for all prompts, or a share of each one's
// tokens.
struct Budget {
  Budget() = default;                            // none
  Budget(std::int64_t n_rows) : rows(n_rows) {}  // NOLINT(google-explicit-constructor): a number is one
  static Budget of_share(double share);

  bool is_given() const { return rows > 0 || share > 0; }

  // N for a prompt of n_tokens: the share of it, half up, at least 1; 0 where none is given.
  std::int64_t rows_for(std::int64_t n_tokens) const;

  // As parse_budget reads it.
  std::string text() const;

  std::int64_t rows = 0;  // 0: `share` holds
  double share = 0;       // of the prompt's tokens, 0 < share <= 1
};

// "64": rows; "0.25" or "25%": a share.
//   throws UsageError on anything else
Budget parse_budget(std::string_view text);

}  // namespace keyscope::analysis

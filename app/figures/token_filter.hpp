#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figures/scales.hpp"

namespace keyscope::figures {

// A quantity that every token of a head may have, with the part of it that is chosen.
struct TokenQuantity {
  std::string id, label;
  std::vector<double> values = {};   // (n_tokens), NaN where a token has none
  bool logarithmic = false;          // values that are not above 0 lie at its low end
  std::optional<Range> chosen = {};  // empty: tokens are chosen whatever they have, also none

  // All finite values; on a logarithmic axis from the least above 0 within five decades of the largest.
  // Range::none() where there are none.
  Range range() const;
  // Where a value lies along that range, in [0, 1], and what lies there.
  double share(const Range& range, double value) const;
  double value_at(const Range& range, double share) const;
};

// Positions of the tokens that lie in every chosen part, ascending.
std::vector<std::int32_t> chosen_tokens(std::span<const TokenQuantity> quantities);

// Of one of several quantities that filter each other.
struct FilteredHistogram {
  Range range;                            // of the quantity
  std::vector<std::int64_t> all, chosen;  // per bin: all tokens, and those that the other quantities leave
};
FilteredHistogram histogram_of(std::span<const TokenQuantity> quantities, std::size_t which, int n_bins);

}  // namespace keyscope::figures

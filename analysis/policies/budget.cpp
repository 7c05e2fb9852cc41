#include "analysis/policies/budget.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {

Budget Budget::of_share(double share) {
  Budget budget;
  budget.share = share;
  return budget;
}

std::int64_t Budget::rows_for(std::int64_t n_tokens) const {
  // 0.29 is no double, and 750 times the one next to it lies below 217.5.
  constexpr double kRoundOff = 1e-9;
  if (rows > 0 || share <= 0) return rows;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::floor(share * static_cast<double>(n_tokens) + 0.5 + kRoundOff)));
}

std::string Budget::text() const {
  if (rows > 0) return std::to_string(rows);
  return share == 1 ? "100%" : fmt::format("{}", share);  // "1" would be a row
}

Budget parse_budget(std::string_view text) {
  const char* const end = text.data() + text.size();
  Budget budget;
  if (const auto [stop, error] = std::from_chars(text.data(), end, budget.rows);
      error == std::errc() && stop == end && budget.rows >= 1)
    return budget;
  budget.rows = 0;
  const bool percent = text.ends_with('%');
  if (const auto [stop, error] = std::from_chars(text.data(), end, budget.share);
      error == std::errc() && stop + (percent ? 1 : 0) == end) {
    if (percent) budget.share /= 100;
    if (budget.share > 0 && budget.share <= 1) return budget;
  }
  throw UsageError(fmt::format(
      "--budget: found '{}'; expected 1 or more rows, such as 64, or a share of the prompt, such as 0.25 "
      "or 25%",
      text));
}

}  // namespace keyscope::analysis

#include "app/figures/token_filter.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::figures {

namespace {

constexpr double kDecades = 1e5;

bool is_chosen(const TokenQuantity& quantity, std::size_t token) {
  if (!quantity.chosen) return true;
  const double value = quantity.values[token];
  return value >= quantity.chosen->low && value <= quantity.chosen->high;  // NaN does not
}

// All have as many tokens.
std::size_t n_tokens(std::span<const TokenQuantity> quantities) {
  return quantities.empty() ? 0 : quantities.front().values.size();
}

}  // namespace

Range TokenQuantity::range() const {
  Range range = Range::none();
  for (const double value : values)
    if (std::isfinite(value) && (!logarithmic || value > 0)) range.include(value);
  if (logarithmic) range.low = std::max(range.low, range.high / kDecades);
  return range;
}

double TokenQuantity::share(const Range& range, double value) const {
  if (!(range.high > range.low)) return 0.5;
  const double share = logarithmic
                           ? (value > 0 ? std::log(value / range.low) / std::log(range.high / range.low) : 0)
                           : (value - range.low) / range.width();
  return std::clamp(share, 0.0, 1.0);
}

double TokenQuantity::value_at(const Range& range, double share) const {
  if (!(range.high > range.low)) return range.low;
  return logarithmic ? range.low * std::pow(range.high / range.low, share)
                     : range.low + share * range.width();
}

std::vector<std::int32_t> chosen_tokens(std::span<const TokenQuantity> quantities) {
  std::vector<std::int32_t> tokens;
  for (std::size_t token = 0; token < n_tokens(quantities); ++token)
    if (std::ranges::all_of(quantities, [&](const auto& quantity) { return is_chosen(quantity, token); }))
      tokens.push_back(static_cast<std::int32_t>(token));
  return tokens;
}

FilteredHistogram histogram_of(std::span<const TokenQuantity> quantities, std::size_t which, int n_bins) {
  const TokenQuantity& quantity = quantities[which];
  FilteredHistogram histogram{quantity.range(), {}, {}};
  histogram.all.assign(n_bins, 0);
  histogram.chosen.assign(n_bins, 0);
  if (!(histogram.range.high >= histogram.range.low)) return histogram;
  for (std::size_t token = 0; token < quantity.values.size(); ++token) {
    const double value = quantity.values[token];
    if (!std::isfinite(value)) continue;
    const double at = quantity.share(histogram.range, value) * n_bins;
    const int bin = std::min(n_bins - 1, static_cast<int>(at));
    ++histogram.all[bin];
    bool left = true;
    for (std::size_t other = 0; other < quantities.size() && left; ++other)
      left = other == which || is_chosen(quantities[other], token);
    histogram.chosen[bin] += left ? 1 : 0;
  }
  return histogram;
}

}  // namespace keyscope::figures

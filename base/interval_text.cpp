#include "base/interval_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"

namespace keyscope {

int interval_decimals(double low, double high, int at_least) {
  constexpr int kMost = 99;  // a tiny number has only its own digits of these
  const double width = high - low;
  if (!(width > 0) || !std::isfinite(width)) return at_least;
  // A width of 0.01, say, is a little less or more than that in binary.
  const double needed = std::ceil(-std::log10(width) - 1e-9);
  return std::max(at_least, static_cast<int>(std::clamp<double>(needed, 0, kMost)));
}

std::string number_text(double value, int at_least) {
  constexpr int kMostInFull = 5;  // 0.00048 may be written out, 0.0000121 not
  const double size = std::abs(value);
  if (std::isnan(value)) return "–";
  const bool in_full = at_least <= kMostInFull && size >= 0.5 * std::pow(10.0, -at_least);
  if (size > 0 && size < 5e-4 && !in_full) {
    const int before = -static_cast<int>(std::floor(std::log10(size))) - 1;  // decimals that are zeros
    return format_value(value, std::max(2, at_least - before));
  }
  return format_signed(value, std::max(at_least, size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

std::string mean_text(double mean, double low, double high) {
  if (std::isnan(low) || std::isnan(high)) return number_text(mean);
  return fmt::format("{} {}", number_text(mean, interval_decimals(low, high, 0)), interval_text(low, high));
}

std::string mean_text(double mean, double low, double high, int at_least) {
  if (std::isnan(mean)) return "–";
  if (std::isnan(low) || std::isnan(high)) return format_signed(mean, at_least);
  const int decimals = interval_decimals(low, high, at_least);
  return fmt::format("{} [{}, {}]", format_signed(mean, decimals), format_signed(low, decimals),
                     format_signed(high, decimals));
}

}  // namespace keyscope

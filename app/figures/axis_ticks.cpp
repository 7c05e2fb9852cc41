#include "app/figures/axis_ticks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"

namespace keyscope::figures {
namespace {

// Smallest of 1, 2, 5, 10, 20 … (or 0.1, 0.2 …) that is not below `at_least`.
double round_step(double at_least) {
  const double power = std::pow(10.0, std::floor(std::log10(at_least)));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= at_least * (1 - 1e-9)) return step * power;
  return 10 * power;
}

// The next smaller one: 10, 5, 2, 1, 0.5 …
double smaller_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step) + 1e-9));
  return std::abs(step / power - 5) < 1e-6 ? 2 * power : step / 2;
}

// Multiples of `step` by whole numbers: the first and the last one inside [low, high].
struct Multiples {
  double first = 0, last = -1;
  double count() const { return last - first + 1; }
};

Multiples multiples_inside(double low, double high, double step) {
  const double slack = (high - low) * 1e-9;
  return {std::ceil((low - slack) / step), std::floor((high + slack) / step)};
}

// As many decimals as tell neighbouring ticks apart; powers of ten where that would be long.
std::string format_tick(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  const double largest = std::max(std::abs(value), step);
  if (largest >= 1e6 || largest < 1e-4) return format_value(value, 3);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  const std::string_view sign = value < 0 ? "\u2212" : "";
  if (decimals == 0 && largest >= 1000)
    return fmt::format("{}{}", sign, format_count(std::llround(std::abs(value))));
  return fmt::format("{}{:.{}f}", sign, std::abs(value), decimals);
}

// "10⁻⁵"
std::string format_power(int power) {
  static constexpr std::array kDigits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = power < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(power))) text += kDigits[digit - '0'];
  return text;
}

}  // namespace

std::vector<Tick> linear_ticks(double low, double high, int n_wanted, bool integers) {
  if (!std::isfinite(low) || !std::isfinite(high) || high < low) return {};
  const double range = high - low;
  const double magnitude = std::max(std::abs(low), std::abs(high));
  if (range <= magnitude * 1e-12) return {{low, format_value(low)}};
  double step = round_step(range / std::max(1, n_wanted));
  if (integers) step = std::max(step, 1.0);
  Multiples multiples = multiples_inside(low, high, step);
  // One label alone gives no scale.
  while (multiples.count() < 2 && !(integers && step <= 1)) {
    step = smaller_step(step);
    multiples = multiples_inside(low, high, step);
  }
  // A step that had to be smaller may give more than there is room for: every second one will do.
  const bool thin = multiples.count() > std::max(3, n_wanted + 1);
  std::vector<Tick> ticks;
  const auto n_multiples = static_cast<int>(multiples.count());
  for (int i = 0; i < n_multiples; ++i) {
    const double n = multiples.first + i;
    if (!thin || std::fmod(n, 2) == 0) ticks.push_back({n * step, format_tick(n * step, step)});
  }
  return ticks;
}

std::vector<Tick> logarithmic_ticks(double low, double high, int n_wanted) {
  if (!(low > 0) || !std::isfinite(high) || high < low) return {};
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  const int every = std::max(1, (last - first + std::max(1, n_wanted)) / std::max(1, n_wanted));
  std::vector<Tick> ticks;
  for (int power = first; power <= last; power += every) {
    const bool plain = power >= -3 && power <= 4;
    const double value = std::pow(10.0, power);
    ticks.push_back(
        {value, plain ? fmt::format("{:.{}f}", value, std::max(0, -power)) : format_power(power)});
  }
  // One label alone gives no scale.
  return ticks.size() > 1 ? ticks : linear_ticks(low, high, n_wanted);
}

}  // namespace keyscope::figures

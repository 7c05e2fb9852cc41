#include "app/validation/number_text.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::validation {

std::string number_text(double value) {
  const double size = std::abs(value);
  if (std::isnan(value)) return "–";
  if (size > 0 && size < 5e-4) return figures::format_value(value, 2);
  return figures::format_signed(value, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string interval_text(const analysis::BootstrapMean& mean) {
  if (std::isnan(mean.low)) return "–";
  return fmt::format("[{}, {}]", number_text(mean.low), number_text(mean.high));
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes)
                   : fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[unit]);
}

}  // namespace keyscope::validation

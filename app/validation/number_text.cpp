#include "app/validation/number_text.hpp"

#include <cmath>

#include <fmt/format.h>

namespace keyscope::validation {

std::string number_text(double value) {
  const double size = std::abs(value);
  if (std::isnan(value)) return "–";
  if (size > 0 && size < 5e-4) return fmt::format("{:.1e}", value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string interval_text(const analysis::BootstrapMean& mean) {
  if (std::isnan(mean.low)) return "–";
  return fmt::format("[{}, {}]", number_text(mean.low), number_text(mean.high));
}

}  // namespace keyscope::validation

#include "app/commands/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace keyscope::commands {

std::string sparkline(std::span<const std::optional<double>> values, double low, double high) {
  static constexpr std::array kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const auto& value : values) {
    if (!value || std::isnan(*value)) {
      line += "·";
      continue;
    }
    const double share = std::clamp((*value - low) / (high - low), 0.0, 1.0);
    line += kHeights.at(
        std::min<std::size_t>(static_cast<std::size_t>(share * kHeights.size()), kHeights.size() - 1));
  }
  return line;
}

}  // namespace keyscope::commands

#include "app/drawing/space.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::figures {

void Orbit::drag(double right, double down) {
  azimuth = std::remainder(azimuth + right, 2 * std::numbers::pi);
  elevation = std::clamp(elevation + down, -std::numbers::pi / 2, std::numbers::pi / 2);
}

Turned Orbit::turn(double x, double y, double z) const {
  const double right = x * std::cos(azimuth) - y * std::sin(azimuth);
  const double into = x * std::sin(azimuth) + y * std::cos(azimuth);
  return {right, z * std::cos(elevation) + into * std::sin(elevation),
          into * std::cos(elevation) - z * std::sin(elevation)};
}

}  // namespace keyscope::figures

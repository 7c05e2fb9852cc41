#pragma once

#include <numbers>

namespace keyscope::figures {

// A point of space as it is seen: right and up in the picture, and how far into it.
struct Turned {
  double x = 0, y = 0, depth = 0;  // depth grows away from the eye
};

// A place that space is looked at from, without perspective; the third axis stands upright. Pages look from
// where the window begins.
struct Orbit {
  double azimuth = -55 * std::numbers::pi / 180;  // radians, about the third axis
  double elevation = 24 * std::numbers::pi / 180;  // radians above the plane of the first two, within ± π / 2

  // By a drag across the picture, in radians: a point at the front follows it.
  void drag(double right, double down);

  Turned turn(double x, double y, double z) const;
  bool operator==(const Orbit&) const = default;
};

}  // namespace keyscope::figures

#include "app/figures/space_box.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace keyscope::figures {

SpaceBox space_box(const RowMatrixF& places) {
  SpaceBox box;
  bool first = true;
  for (Eigen::Index row = 0; row < places.rows(); ++row) {
    if (!places.row(row).allFinite()) continue;
    for (Eigen::Index axis = 0; axis < 3; ++axis) {
      const double at = places(row, axis);
      double &low = box.low[axis], &high = box.high[axis];
      low = first ? at : std::min(low, at);
      high = first ? at : std::max(high, at);
    }
    first = false;
  }
  const auto centre = box.middle();
  for (Eigen::Index row = 0; row < places.rows(); ++row) {
    if (!places.row(row).allFinite()) continue;
    box.radius = std::max(box.radius, std::hypot(places(row, 0) - centre[0], places(row, 1) - centre[1],
                                                 places(row, 2) - centre[2]));
  }
  return box;
}

SpaceBox both_boxes(const SpaceBox& a, const SpaceBox& b) {
  SpaceBox box;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    box.low[axis] = std::min(a.low[axis], b.low[axis]);
    box.high[axis] = std::max(a.high[axis], b.high[axis]);
  }
  const auto centre = box.middle();
  for (const SpaceBox& each : {a, b}) {
    const auto own = each.middle();
    const double away = std::hypot(own[0] - centre[0], own[1] - centre[1], own[2] - centre[2]);
    box.radius = std::max(box.radius, away + each.radius);
  }
  return box;
}

void turn_points(const Panel& space, const SpaceBox& box, const Orbit& orbit, Panel& seen) {
  // The turn as a matrix, once: its columns are where the axes go.
  const Turned a = orbit.turn(1, 0, 0), b = orbit.turn(0, 1, 0), c = orbit.turn(0, 0, 1);
  const auto centre = box.middle();
  for (std::size_t s = 0; s < space.points.size(); ++s) {
    const PointSeries& from = space.points[s];
    PointSeries& to = seen.points.at(s);
    for (std::size_t i = 0; i < from.z.size(); ++i) {
      const double x = from.x[i] - centre[0], y = from.y[i] - centre[1], z = from.z[i] - centre[2];
      to.x.at(i) = static_cast<float>(a.x * x + b.x * y + c.x * z);
      to.y[i] = static_cast<float>(a.y * x + b.y * y + c.y * z);
      to.z[i] = static_cast<float>(a.depth * x + b.depth * y + c.depth * z);
    }
  }
}

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

BoxFrame box_frame(const std::array<Turned, 8>& corners) {
  constexpr double kAlike = 1e-3;  // of the box, by which no one can tell which is farther out
  BoxFrame frame;
  frame.nearest = std::ranges::min_element(corners, {}, &Turned::depth) - corners.begin();
  double size = 0;
  for (const Turned& corner : corners) size = std::max(size, std::hypot(corner.x, corner.y));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    double farthest = -1, lowest = 0;
    for (std::size_t low = 0; low < corners.size(); ++low) {
      const std::size_t high = low | std::size_t{1} << axis;
      if (low == high || !frame.is_drawn(low, axis)) continue;
      const double x = (corners[low].x + corners[high].x) / 2, y = (corners[low].y + corners[high].y) / 2;
      const double away = std::hypot(x, y), height = axis == 2 ? x : y;
      const bool alike = std::abs(away - farthest) <= kAlike * size;
      if (alike ? height >= lowest : away < farthest) continue;
      farthest = away;
      lowest = height;
      frame.labelled[axis] = low;
    }
  }
  return frame;
}

}  // namespace keyscope::figures

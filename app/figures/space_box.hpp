#pragma once

#include <array>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::figures {

// The box that points of space lie in, and the ball about its middle that holds them whichever way they are
// turned.
struct SpaceBox {
  std::array<double, 3> low{}, high{};
  double radius = 0;
  bool operator==(const SpaceBox&) const = default;

  std::array<double, 3> middle() const {
    return {(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, (low[2] + high[2]) / 2};
  }
  Turned turned(const Orbit& orbit, double x, double y, double z) const {
    const auto centre = middle();
    return orbit.turn(x - centre[0], y - centre[1], z - centre[2]);
  }
};

// Of the keys, in the three coordinates of all blocks, so that it stands still; a box of no width without any
// that are finite.
//   coordinates: (n, 3)
SpaceBox space_box(const RowMatrixF& coordinates);

// The least box that holds both, with a ball that holds both of theirs: so that points of several runs are
// turned about one middle.
SpaceBox both_boxes(const SpaceBox& a, const SpaceBox& b);

// Puts points where they are seen: x to the right, y upwards, about the middle of the box, and z their depth.
//   space: a panel of three dimensions; seen: a copy of it, that was turned before or not
void turn_points(const Panel& space, const SpaceBox& box, const Orbit& orbit, Panel& seen);

}  // namespace keyscope::figures

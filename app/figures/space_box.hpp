#pragma once

#include <array>
#include <cstddef>

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

// How a box that is seen turned is drawn: all its edges but those at the corner nearest to the eye, which
// would lie in front of its points. Corners are numbered by three bits: high on the first, second and third
// axis.
struct BoxFrame {
  std::size_t nearest = 0;
  // For each axis the low end of the edge that carries its numbers and its name: the outermost one; where two
  // are, the lower one, and of two upright ones the left one.
  std::array<std::size_t, 3> labelled{};

  bool is_drawn(std::size_t corner, std::size_t axis) const {
    return corner != nearest && (corner | std::size_t{1} << axis) != nearest;
  }
};
//   corners: about the middle of the box
BoxFrame box_frame(const std::array<Turned, 8>& corners);

}  // namespace keyscope::figures

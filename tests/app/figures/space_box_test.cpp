// Keys of space, and the box that they lie in whichever way it is turned.

#include "app/figures/space_box.hpp"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

RowMatrixF three_keys() {
  RowMatrixF points(4, 3);
  points << 1, 0, 0, 3, 4, 0, 2, 2, 6, NAN, 0, 0;
  return points;
}

TEST(SpaceBox, HoldsAllKeysWhicheverWayTheyAreTurned) {
  const RowMatrixF points = three_keys();
  const SpaceBox box = space_box(points);
  EXPECT_EQ(box.low, (std::array<double, 3>{1, 0, 0}));
  EXPECT_EQ(box.high, (std::array<double, 3>{3, 4, 6}));
  for (const double azimuth : {0.0, 0.7, 2.0, -3.0})
    for (Eigen::Index i = 0; i < 3; ++i) {
      const Turned at = box.turned({azimuth, 0.4}, points(i, 0), points(i, 1), points(i, 2));
      EXPECT_LE(std::hypot(at.x, at.y, at.depth), box.radius + 1e-9);
    }
  EXPECT_EQ(space_box({}).radius, 0);
}

TEST(SpaceBox, OfTwoRunsHoldsTheKeysOfBoth) {
  RowMatrixF first = three_keys(), second = three_keys();
  second.array() += 2.5F;
  const SpaceBox box = both_boxes(space_box(first), space_box(second));
  EXPECT_EQ(box.low, (std::array<double, 3>{1, 0, 0}));
  EXPECT_EQ(box.high, (std::array<double, 3>{5.5, 6.5, 8.5}));
  for (const RowMatrixF* points : {&first, &second})
    for (Eigen::Index i = 0; i < 3; ++i) {
      const Turned at = box.turned({0.7, 0.4}, (*points)(i, 0), (*points)(i, 1), (*points)(i, 2));
      EXPECT_LE(std::hypot(at.x, at.y, at.depth), box.radius + 1e-9);
    }
  EXPECT_EQ(both_boxes(box, box), box);
}

// The matrix that turns all points agrees with turning each.
TEST(TurnPoints, TurnsEveryPointAboutTheMiddle) {
  const SpaceBox box = space_box(three_keys());
  Panel space;
  space.points.resize(2);
  space.points[0].x = {1, 3};
  space.points[0].y = {0, 4};
  space.points[0].z = {0, 0};
  space.points[1].x = {2};
  space.points[1].y = {2};
  space.points[1].z = {6};
  Panel seen = space;
  const Orbit orbit{0.3, -0.8};
  turn_points(space, box, {2, 1}, seen);
  turn_points(space, box, orbit, seen);
  for (std::size_t s = 0; s < 2; ++s)
    for (std::size_t i = 0; i < space.points[s].x.size(); ++i) {
      const Turned at = box.turned(orbit, space.points[s].x[i], space.points[s].y[i], space.points[s].z[i]);
      EXPECT_NEAR(seen.points[s].x[i], at.x, 1e-6);
      EXPECT_NEAR(seen.points[s].y[i], at.y, 1e-6);
      EXPECT_NEAR(seen.points[s].z[i], at.depth, 1e-6);
    }
}

std::array<Turned, 8> unit_corners(const Orbit& orbit) {
  std::array<Turned, 8> corners;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const auto end = [&](std::size_t axis) { return (i >> axis & 1U) != 0 ? 0.5 : -0.5; };
    corners[i] = orbit.turn(end(0), end(1), end(2));
  }
  return corners;
}

TEST(BoxFrame, LabelsTheEdgesBelowAndToTheLeft) {
  const BoxFrame frame = box_frame(unit_corners({}));
  EXPECT_EQ(frame.nearest, 0b101U);
  EXPECT_EQ(frame.labelled, (std::array<std::size_t, 3>{0b000, 0b001, 0b000}));
}

// As a page that is turned by hand.
TEST(BoxFrame, NeverHidesPointsBehindAnEdgeNorLabelsOneThatIsNotDrawn) {
  for (double azimuth = -3.1; azimuth < 3.1; azimuth += 0.37)
    for (const double elevation : {-1.5, -0.6, 0.2, 1.1}) {
      const auto corners = unit_corners({azimuth, elevation});
      const BoxFrame frame = box_frame(corners);
      for (const Turned& corner : corners) EXPECT_LE(corners[frame.nearest].depth, corner.depth);
      for (std::size_t axis = 0; axis < 3; ++axis) {
        EXPECT_EQ(frame.labelled[axis] >> axis & 1U, 0U);
        EXPECT_TRUE(frame.is_drawn(frame.labelled[axis], axis));
      }
    }
}

}  // namespace
}  // namespace keyscope::figures

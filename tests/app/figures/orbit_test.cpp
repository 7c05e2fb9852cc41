#include "app/drawing/space.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

TEST(Orbit, KeepsLengths) {
  const Orbit orbit;
  const Turned turned = orbit.turn(1, -2, 3);
  EXPECT_NEAR(turned.x * turned.x + turned.y * turned.y + turned.depth * turned.depth, 14, 1e-12);
}

TEST(Orbit, FromTheFrontAndFromAboveShowsAxes) {
  const Turned front = Orbit{0, 0}.turn(1, 2, 3);
  EXPECT_NEAR(front.x, 1, 1e-12);
  EXPECT_NEAR(front.y, 3, 1e-12) << "the third axis stands upright";
  EXPECT_NEAR(front.depth, 2, 1e-12);
  const Turned above = Orbit{0, std::numbers::pi / 2}.turn(1, 2, 3);
  EXPECT_NEAR(above.x, 1, 1e-12);
  EXPECT_NEAR(above.y, 2, 1e-12);
  EXPECT_NEAR(above.depth, -3, 1e-12) << "what is high is near";
}

// The point nearest to the eye of a unit sphere.
TEST(Orbit, ADraggedPointAtTheFrontFollows) {
  Orbit orbit{0.4, 0.3};
  const double c = std::cos(orbit.elevation), s = std::sin(orbit.elevation);
  const double x = -std::sin(orbit.azimuth) * c, y = -std::cos(orbit.azimuth) * c, z = s;
  ASSERT_NEAR(orbit.turn(x, y, z).depth, -1, 1e-12);
  orbit.drag(0.1, 0);
  EXPECT_GT(orbit.turn(x, y, z).x, 0.05);
  orbit = {0.4, 0.3};
  orbit.drag(0, 0.1);
  EXPECT_LT(orbit.turn(x, y, z).y, -0.05);
  orbit.drag(0, 100);
  EXPECT_NEAR(orbit.elevation, std::numbers::pi / 2, 1e-12) << "never over the top";
}

}  // namespace
}  // namespace keyscope::figures

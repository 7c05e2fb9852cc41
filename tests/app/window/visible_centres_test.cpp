#include "app/window/visible_centres.hpp"

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

PlotView pixel_view() {  // one unit is 900 pixels, the origin at (50, 950)
  PlotView view;
  view.set_frame(0, 0, 1000, 1000);
  view.fit({0, 1, 0, 1}, true);
  return view;
}

std::vector<float> centres_of(const std::vector<float>& x, const std::vector<float>& y,
                              const PixelRect& part = {0, 0, 1000, 1000}) {
  figures::PointSeries series;
  series.x = x;
  series.y = y;
  std::vector<float> centres;
  std::vector<std::uint64_t> occupied;
  visible_centres(series, pixel_view(), part, 4, centres, occupied);
  return centres;
}

TEST(VisibleCentres, ArePixelsOfThePlot) {
  const auto centres = centres_of({0, 1}, {0, 0.5F});
  ASSERT_EQ(centres.size(), 4U);
  EXPECT_NEAR(centres[0], 50, 1e-3);
  EXPECT_NEAR(centres[1], 950, 1e-3);
  EXPECT_NEAR(centres[2], 950, 1e-3);
  EXPECT_NEAR(centres[3], 500, 1e-3);
}

TEST(VisibleCentres, DropOnlyWhatLiesUnderAnother) {
  // Three points in one place, one a whole pixel beside them.
  const auto centres = centres_of({0.5F, 0.5F, 0.5F, 0.5F + 1 / 900.0F}, {0.5F, 0.5F, 0.5F, 0.5F});
  EXPECT_EQ(centres.size(), 4U);
}

TEST(VisibleCentres, DropWhatIsOutsideButNotWhatReachesIn) {
  const float two_px = 2 / 900.0F;
  const float left_edge = -50 / 900.0F;
  EXPECT_EQ(centres_of({left_edge - two_px}, {0.5F}).size(), 2U);
  EXPECT_TRUE(centres_of({left_edge - 10 * two_px, NAN}, {0.5F, 0.5F}).empty());
}

TEST(VisibleCentres, OfAPartAreThoseThatReachIntoIt) {
  const float px = 1 / 900.0F;
  const std::vector<float> x{0, 100 * px, 107 * px, 120 * px};
  const auto centres = centres_of(x, {0.5F, 0.5F, 0.5F, 0.5F}, {155, 0, 165, 1000});
  ASSERT_EQ(centres.size(), 2U);  // at 157; 150 and 170 are further away than a radius and its edge
  EXPECT_NEAR(centres[0], 157, 1e-3);
}

}  // namespace
}  // namespace keyscope::window

#include <gtest/gtest.h>

#include "app/display/point_layer.hpp"

namespace keyscope::window {
namespace {

PlotView pixel_view() {  // one unit is 900 pixels, the origin at (50, 950)
  PlotView view;
  view.set_frame(0, 0, 1000, 1000);
  view.fit({0, 1, 0, 1}, true);
  return view;
}

std::vector<VisibleCentre> centres_of(const std::vector<float>& x, const std::vector<float>& y,
                                      const PixelRect& part = {0, 0, 1000, 1000}) {
  figures::PointSeries series;
  series.x = x;
  series.y = y;
  std::vector<VisibleCentre> centres;
  std::vector<std::uint64_t> occupied;
  visible_centres(series, pixel_view(), part, 4, centres, occupied);
  return centres;
}

TEST(VisibleCentres, ArePixelsOfThePlot) {
  const auto centres = centres_of({0, 1}, {0, 0.5F});
  ASSERT_EQ(centres.size(), 2U);
  EXPECT_NEAR(centres[0].x, 50, 1e-3);
  EXPECT_NEAR(centres[0].y, 950, 1e-3);
  EXPECT_EQ(centres[0].at, 0U);
  EXPECT_NEAR(centres[1].x, 950, 1e-3);
  EXPECT_NEAR(centres[1].y, 500, 1e-3);
  EXPECT_EQ(centres[1].at, 1U);
}

TEST(VisibleCentres, DropOnlyWhatLiesUnderAnother) {
  // Three points in one place, one a whole pixel beside them.
  const auto centres = centres_of({0.5F, 0.5F, 0.5F, 0.5F + 1 / 900.0F}, {0.5F, 0.5F, 0.5F, 0.5F});
  ASSERT_EQ(centres.size(), 2U);
  EXPECT_EQ(centres[0].at, 2U) << "the last drawn";
}

TEST(NearestCentres, DropWhatLiesBehindAnother) {
  figures::PointSeries series;
  series.x = {0.5F, 0.5F, 0.5F, 0.25F};
  series.y = {0.5F, 0.5F, 0.5F, 0.5F};
  series.z = {2, -1, 0, 9};
  std::vector<VisibleCentre> centres;
  std::vector<std::uint32_t> nearest;
  nearest_centres(series, pixel_view(), {0, 0, 1000, 1000}, 4, centres, nearest);
  ASSERT_EQ(centres.size(), 2U);
  EXPECT_EQ(centres[0].at, 1U) << "the nearest";
  EXPECT_EQ(centres[1].at, 3U);
}

TEST(VisibleCentres, DropWhatIsOutsideButNotWhatReachesIn) {
  const float two_px = 2 / 900.0F;
  const float left_edge = -50 / 900.0F;
  EXPECT_EQ(centres_of({left_edge - two_px}, {0.5F}).size(), 1U);
  EXPECT_TRUE(centres_of({left_edge - 10 * two_px, NAN}, {0.5F, 0.5F}).empty());
}

TEST(VisibleCentres, OfAPartAreThoseThatReachIntoIt) {
  const float px = 1 / 900.0F;
  const std::vector<float> x{0, 100 * px, 107 * px, 120 * px};
  const auto centres = centres_of(x, {0.5F, 0.5F, 0.5F, 0.5F}, {155, 0, 165, 1000});
  ASSERT_EQ(centres.size(), 1U);  // at 157; 150 and 170 are further away than a radius and its edge
  EXPECT_NEAR(centres[0].x, 157, 1e-3);
}

}  // namespace
}  // namespace keyscope::window

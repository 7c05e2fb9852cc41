#include "app/display/plot_view.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace keyscope::window {

namespace {

PlotView fitted(const figures::Extent& extent = {-2, 2, -1, 1}) {
  PlotView view;
  view.set_frame(100, 50, 600, 400);
  view.fit(extent, true);
  return view;
}

TEST(PlotView, FitShowsEverythingWithEqualUnits) {
  const PlotView view = fitted();
  EXPECT_EQ(view.pixels_per_unit_x(), view.pixels_per_unit_y());
  const Pixel low = view.to_pixel(-2, -1);
  const Pixel high = view.to_pixel(2, 1);
  EXPECT_NEAR(low.x, 130, 0.5);  // a twentieth of the width
  EXPECT_NEAR(high.x, 670, 0.5);
  EXPECT_LT(low.y, 450);
  EXPECT_GT(high.y, 50);
  EXPECT_GT(low.y, high.y);  // y goes upwards
}

TEST(PlotView, PixelsAndPlaneAreInverse) {
  const PlotView view = fitted();
  const PlotPoint point = view.to_plane(view.to_pixel(0.3, -0.7));
  EXPECT_NEAR(point.x, 0.3, 1e-4);
  EXPECT_NEAR(point.y, -0.7, 1e-4);
}

TEST(PlotView, FollowsAnotherInItsOwnFrame) {
  PlotView leading = fitted();
  PlotView view;
  view.set_frame(700, 300, 600, 400);
  leading.zoom_at({250, 120}, 3);
  leading.pan(17, -5);
  view.follow(leading);
  const Pixel own = view.to_pixel(0.3, -0.7), there = leading.to_pixel(0.3, -0.7);
  EXPECT_NEAR(own.x - 700, there.x - 100, 1e-3);
  EXPECT_NEAR(own.y - 300, there.y - 50, 1e-3);
  EXPECT_TRUE(view.moved()) << "it stays when its frame changes";
  const auto revision = view.revision();
  view.follow(leading);
  EXPECT_EQ(view.revision(), revision) << "nothing is to be drawn again";
}

TEST(PlotView, ZoomKeepsThePointUnderTheCursor) {
  PlotView view = fitted();
  const Pixel cursor{250, 120};
  const PlotPoint before = view.to_plane(cursor);
  view.zoom_at(cursor, 3);
  const PlotPoint after = view.to_plane(cursor);
  EXPECT_NEAR(before.x, after.x, 1e-9);
  EXPECT_NEAR(before.y, after.y, 1e-9);
  EXPECT_TRUE(view.moved());
}

TEST(PlotView, PanMovesWithTheCursor) {
  PlotView view = fitted();
  const PlotPoint before = view.to_plane({300, 200});
  view.pan(40, -25);
  const PlotPoint after = view.to_plane({340, 175});
  EXPECT_NEAR(before.x, after.x, 1e-9);
  EXPECT_NEAR(before.y, after.y, 1e-9);
}

TEST(PlotView, ShowsTheLimitsThatItIsGiven) {
  PlotView view = fitted();
  view.show({-0.5, 0.25, 1, 3});
  EXPECT_NEAR(view.to_pixel(-0.5, 3).x, 100, 1e-3);
  EXPECT_NEAR(view.to_pixel(0.25, 3).y, 50, 1e-3);
  EXPECT_TRUE(view.moved());
  const figures::Extent limits = view.limits();
  EXPECT_NEAR(limits.x_low, -0.5, 1e-12);
  EXPECT_NEAR(limits.y_high, 3, 1e-12);
  view.show({1, 1, 0, 2});  // no width: nothing that could be shown
  EXPECT_EQ(view.limits(), limits);
}

TEST(PlotView, AMatrixsRowsGoDownwards) {
  PlotView view = fitted({0, 8, 0, 4});
  view.set_downwards(true);
  EXPECT_LT(view.to_pixel(0, 0).y, view.to_pixel(0, 4).y);
  const PlotPoint before = view.to_plane({300, 200});
  view.pan(40, -25);
  view.zoom_at({340, 175}, 2);
  const PlotPoint after = view.to_plane({340, 175});
  EXPECT_NEAR(before.x, after.x, 1e-9);
  EXPECT_NEAR(before.y, after.y, 1e-9);
}

TEST(PlotView, StaysFittedInANewFrameUntilItIsMoved) {
  PlotView view = fitted();
  view.set_frame(0, 0, 300, 300);
  EXPECT_NEAR(view.to_pixel(-2, 0).x, 15, 0.5);
  view.pan(10, 0);
  const double scale = view.pixels_per_unit_x();
  view.set_frame(0, 0, 500, 500);
  EXPECT_EQ(view.pixels_per_unit_x(), scale);
}

TEST(PlotView, ASinglePointAndNoPointsAreShowable) {
  const PlotView one = fitted({3, 3, 4, 4});
  EXPECT_NEAR(one.to_pixel(3, 4).x, 400, 0.5);
  const PlotView none = fitted({1, -1, 1, -1});
  EXPECT_GT(none.pixels_per_unit_x(), 0);
}

figures::Panel panel_of(const std::vector<std::pair<float, float>>& retained,
                        const std::vector<std::pair<float, float>>& evicted) {
  figures::Panel panel;
  std::int32_t token = 0;
  for (const auto* points : {&evicted, &retained}) {
    figures::PointSeries series;
    series.id = points == &retained ? "retained" : "evicted";
    for (const auto& [x, y] : *points) {
      series.x.push_back(x);
      series.y.push_back(y);
      series.token.push_back(token++);
    }
    panel.points.push_back(series);
  }
  return panel;
}

PlotView square_view() {
  PlotView view;
  view.set_frame(0, 0, 1000, 1000);
  view.fit({0, 1, 0, 1}, true);
  return view;
}

TEST(PointIndex, AgreesWithLookingAtEveryPoint) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<std::pair<float, float>> points;
  for (int i = 0; i < 3000; ++i) points.emplace_back(uniform(random), uniform(random) * uniform(random));
  const figures::Panel panel = panel_of(points, {});
  PointIndex index;
  index.build(panel, {});
  const PlotView view = square_view();
  int found = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Pixel at{1000 * uniform(random), 1000 * uniform(random)};
    std::int32_t best = -1;
    double best_distance = 64;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Pixel pixel = view.to_pixel(points[i].first, points[i].second);
      const double distance = std::pow(double(pixel.x) - at.x, 2) + std::pow(double(pixel.y) - at.y, 2);
      if (distance < best_distance) {
        best_distance = distance;
        best = static_cast<std::int32_t>(i);
      }
    }
    const auto nearest = index.nearest(view, at, 8);
    EXPECT_EQ(nearest.value_or(-1), best);
    found += best >= 0;
  }
  EXPECT_GT(found, 50);
}

TEST(PointIndex, OfPointsInOnePlaceTakesTheOneOnTop) {
  PointIndex index;
  index.build(panel_of({{0.5F, 0.5F}}, {{0.5F, 0.5F}}), {});
  const PlotView view = square_view();
  const Pixel at = view.to_pixel(0.5, 0.5);
  EXPECT_EQ(index.nearest(view, at, 5), 1);  // the retained disc is drawn over the evicted ring
}

TEST(PointIndex, LeavesOutHiddenSeriesAndWhatIsNotFinite) {
  PointIndex index;
  index.build(panel_of({{0.5F, 0.5F}, {NAN, 0.2F}}, {{0.1F, 0.1F}}), {"evicted"});
  EXPECT_EQ(index.size(), 1U);
  const PlotView view = square_view();
  EXPECT_EQ(index.nearest(view, view.to_pixel(0.1, 0.1), 5), std::nullopt);
}

TEST(PointIndex, NothingIsNearWhereThereIsNothing) {
  PointIndex index;
  index.build(figures::Panel(), {});
  EXPECT_EQ(index.nearest(square_view(), {1, 1}, 9), std::nullopt);
}

}  // namespace

}  // namespace keyscope::window

#include "app/panels/point_index.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

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

PlotView unit_view() {
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
  const PlotView view = unit_view();
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
  const PlotView view = unit_view();
  const Pixel at = view.to_pixel(0.5, 0.5);
  EXPECT_EQ(index.nearest(view, at, 5), 1);  // the retained disc is drawn over the evicted ring
}

TEST(PointIndex, LeavesOutHiddenSeriesAndWhatIsNotFinite) {
  PointIndex index;
  index.build(panel_of({{0.5F, 0.5F}, {NAN, 0.2F}}, {{0.1F, 0.1F}}), {"evicted"});
  EXPECT_EQ(index.size(), 1U);
  const PlotView view = unit_view();
  EXPECT_EQ(index.nearest(view, view.to_pixel(0.1, 0.1), 5), std::nullopt);
}

TEST(PointIndex, NothingIsNearWhereThereIsNothing) {
  PointIndex index;
  index.build(figures::Panel(), {});
  EXPECT_EQ(index.nearest(unit_view(), {1, 1}, 9), std::nullopt);
}

}  // namespace
}  // namespace keyscope::window

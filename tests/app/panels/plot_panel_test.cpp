#include "app/panels/plot_panel.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

PlotView wide_view() {
  PlotView view;
  view.set_frame(0, 0, 200, 100);
  view.fit({0, 1, 0, 1}, false, 0);
  return view;
}

figures::LineSeries line(std::vector<float> x, std::vector<float> y) {
  figures::LineSeries series;
  series.x = std::move(x);
  series.y = std::move(y);
  return series;
}

TEST(ThinnedLine, KeepsFewPointsAsTheyAre) {
  const auto lines = thinned_line(line({0, 0.5F, 1}, {0, 1, 0.25F}), wide_view());
  ASSERT_EQ(lines.size(), 1u);
  ASSERT_EQ(lines[0].size(), 3u);
  EXPECT_NEAR(lines[0][1].x, 100, 1e-3);
  EXPECT_NEAR(lines[0][1].y, 0, 1e-3);
  EXPECT_NEAR(lines[0][2].y, 75, 1e-3);
}

TEST(ThinnedLine, BreaksWhereAValueIsMissing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto lines = thinned_line(line({0, 0.2F, 0.4F, 0.6F, 0.8F}, {0, 1, nan, 1, 0}), wide_view());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].size(), 2u);
  EXPECT_EQ(lines[1].size(), 2u);
}

// However many points fall into a column, its extremes are drawn and its ends are joined to their neighbours.
TEST(ThinnedLine, KeepsEveryColumnsExtremes) {
  figures::LineSeries series;
  constexpr int kPoints = 100'000;
  for (int i = 0; i < kPoints; ++i) {
    series.x.push_back(static_cast<float>(i) / kPoints);
    series.y.push_back(0.5F + 0.3F * std::sin(0.01F * static_cast<float>(i)) + (i == 43'210 ? 0.2F : 0));
  }
  const PlotView view = wide_view();
  const auto lines = thinned_line(series, view);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LE(lines[0].size(), 4u * 201);
  for (int column = 0; column < 200; ++column) {
    float low = 1e9F, high = -1e9F, thin_low = 1e9F, thin_high = -1e9F;
    for (int i = 0; i < kPoints; ++i) {
      const Pixel at = view.to_pixel(series.x[i], series.y[i]);
      if (static_cast<int>(std::floor(at.x)) != column) continue;
      low = std::min(low, at.y);
      high = std::max(high, at.y);
    }
    for (const Pixel at : lines[0]) {
      if (static_cast<int>(std::floor(at.x)) != column) continue;
      thin_low = std::min(thin_low, at.y);
      thin_high = std::max(thin_high, at.y);
    }
    EXPECT_EQ(thin_low, low);
    EXPECT_EQ(thin_high, high);
  }
}

TEST(ThinnedLine, StaysNearThePlotAtAnyZoom) {
  PlotView view = wide_view();
  view.zoom_at({100, 50}, 1e4);
  for (const auto& points : thinned_line(line({0, 1e30F, -1e30F}, {1e30F, 0, -1e30F}), view))
    for (const Pixel at : points) EXPECT_LT(std::abs(at.x) + std::abs(at.y), 1e6F);
}

TEST(ThinnedLine, OfNothingIsNothing) { EXPECT_TRUE(thinned_line(line({}, {}), wide_view()).empty()); }

}  // namespace
}  // namespace keyscope::window

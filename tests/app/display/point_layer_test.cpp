// A panned picture is the one that drawing everything anew gives.

#include "app/display/point_layer.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "app/display/glfw_window.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::window {
namespace {

constexpr int kWidth = 320, kHeight = 240;

figures::PointSeries cloud(figures::Marker marker, float size_px, int n, unsigned seed) {
  figures::PointSeries series;
  series.id = marker == figures::Marker::kDisc ? "retained" : "evicted";
  series.marker = marker;
  series.size_px = size_px;
  series.colour = marker == figures::Marker::kDisc ? figures::kBlue : figures::kOrange;
  std::mt19937 random(seed);
  std::normal_distribution<float> place(0, 1);
  for (int i = 0; i < n; ++i) {
    series.x.push_back(place(random));
    series.y.push_back(place(random));
  }
  return series;
}

// What the plot shows of it, the lowest row first, on a ground of the plot's.
std::vector<std::uint8_t> pixels(const PointLayer& layer, const Theme& theme) {
  std::vector<std::uint8_t> all(std::size_t{4} * layer.width() * layer.height());
  glBindTexture(GL_TEXTURE_2D, layer.texture());
  glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, all.data());
  const PixelRect part = layer.shown();
  std::vector<std::uint8_t> rgba;
  for (int row = layer.height() - part.y_high; row < layer.height() - part.y_low; ++row)
    for (int column = part.x_low; column < part.x_high; ++column)
      for (int channel = 0; channel < 4; ++channel) {
        const std::size_t at = 4 * (static_cast<std::size_t>(row) * layer.width() + column);
        const int ground = static_cast<int>(theme.plot >> (8 * channel) & 0xFFU);  // ABGR: red first
        rgba.push_back(static_cast<std::uint8_t>(all[at + channel] + ground * (255 - all[at + 3]) / 255));
      }
  return rgba;
}

class PannedLayer : public ::testing::Test {
 protected:
  PannedLayer() {
    view_.set_frame(0, 0, kWidth, kHeight);
    view_.fit({-2, 2, -2, 2}, true);
    panel_.points = {cloud(figures::Marker::kRing, 7, 3000, 1), cloud(figures::Marker::kDisc, 6, 1000, 2)};
  }

  void draw(PointLayer& layer) { layer.draw(panel_, 1, view_, theme_, {}, 1); }

  // The share of pixels that differ by more than a shade.
  double difference(const PointLayer& layer) {
    PointLayer whole;
    draw(whole);
    const auto a = pixels(layer, theme_), b = pixels(whole, theme_);
    int n = 0;
    for (std::size_t i = 0; i < a.size(); i += 4)
      n += std::abs(a[i] - b[i]) + std::abs(a[i + 1] - b[i + 1]) + std::abs(a[i + 2] - b[i + 2]) > 6 ? 1 : 0;
    return n / (1.0 * kWidth * kHeight);
  }

  // One for all tests: a virtual display may end with its last window.
  static void SetUpTestSuite() { window_ = std::make_unique<GlfwWindow>(kWidth, kHeight, false); }
  static void TearDownTestSuite() { window_.reset(); }

  static inline std::unique_ptr<GlfwWindow> window_;
  Theme theme_ = make_theme(false);
  PlotView view_;
  figures::Panel panel_;
};

TEST_F(PannedLayer, EqualsOneDrawnAnew) {
  PointLayer layer;
  draw(layer);
  EXPECT_GT(layer.points_drawn(), 2000);
  EXPECT_EQ(difference(layer), 0);
  bool drawn_anew = false;
  for (const auto& [dx, dy] : {std::pair{5, 0}, {0, 7}, {-11, -3}, {20, -16}, {-2, 20}, {1, 1}, {60, 40}}) {
    view_.pan(static_cast<float>(dx), static_cast<float>(dy));
    draw(layer);
    drawn_anew = drawn_anew || layer.points_drawn() > 0;
    EXPECT_EQ(drawn_anew, dx == 60) << "what lies beyond the plot serves for small steps";
    // Which of two points in one half pixel is left out may depend on rounding.
    EXPECT_LT(difference(layer), 2e-4) << "after " << dx << ", " << dy;
  }
}

TEST_F(PannedLayer, IsDrawnAnewWhereNothingCanBeKept) {
  PointLayer layer;
  draw(layer);
  for (int step = 0; step < 3; ++step) {
    if (step == 0) view_.zoom_at({100, 100}, 1.3);
    if (step == 1) view_.pan(-2 * kWidth, 0);
    if (step == 2) view_.set_frame(0, 0, kWidth, kHeight - 20), view_.set_frame(0, 0, kWidth, kHeight);
    draw(layer);
    EXPECT_EQ(difference(layer), 0) << "step " << step;
  }
}

// The reference draws every point: of a series of one, none lies under another.
TEST_F(PannedLayer, LeavesOutOnlyRimsOfPointsUnderOthers) {
  view_.zoom_at({160, 120}, 0.2);
  PointLayer layer;
  draw(layer);
  EXPECT_LT(layer.points_drawn(), 3600) << "some are left out";
  figures::Panel every;
  for (const figures::PointSeries& series : panel_.points)
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      figures::PointSeries& one = every.points.emplace_back(series);
      one.x = {series.x[i]};
      one.y = {series.y[i]};
    }
  PointLayer reference;
  reference.draw(every, 1, view_, theme_, {}, 1);
  EXPECT_EQ(reference.points_drawn(), 4000);
  const auto a = pixels(layer, theme_), b = pixels(reference, theme_);
  double sum = 0;
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(a[i] - b[i]);
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  EXPECT_LT(sum / static_cast<double>(a.size()), 0.5) << "of 255 shades";
  EXPECT_LT(most, 128) << "no point's middle is missing";
}

// Large points at given places of a panel whose plane is the pixels of the plot, y upwards.
class FewPoints : public PannedLayer {
 protected:
  FewPoints() {
    view_.fit({0, kWidth, 0, kHeight}, true, 0);
    panel_.points.clear();
  }

  figures::PointSeries& add(figures::Marker marker, figures::Colour colour, std::vector<float> x,
                            std::vector<float> y) {
    figures::PointSeries& series = panel_.points.emplace_back();
    series.id = "series " + std::to_string(panel_.points.size());
    series.marker = marker;
    series.colour = colour;
    series.size_px = 21;
    series.x = std::move(x);
    series.y = std::move(y);
    return series;
  }

  // The colour at a place of the plane.
  figures::Colour at(int x, int y) {
    PointLayer layer;
    layer.draw(panel_, 1, view_, theme_, {}, 1);
    const auto rgba = pixels(layer, theme_);
    const std::size_t i = 4 * (static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x));
    return {rgba[i], rgba[i + 1], rgba[i + 2]};
  }

  static int distance(figures::Colour a, figures::Colour b) {
    return std::abs(a.r - b.r) + std::abs(a.g - b.g) + std::abs(a.b - b.b);
  }
  static constexpr int kNear = 45;  // discs let a little of the background through
};

TEST_F(FewPoints, HaveTheColoursOfTheirValues) {
  panel_.scale.emplace();
  panel_.scale->high = 10;
  add(figures::Marker::kDisc, figures::kBlue, {50, 100, 150}, {100, 100, 100}).value = {0, 10, NAN};
  const auto& table = figures::colour_table(figures::ColourMap::kViridis);
  EXPECT_LT(distance(at(50, 100), table.front()), kNear);
  EXPECT_LT(distance(at(100, 100), table.back()), kNear);
  EXPECT_GT(distance(at(150, 100), table.front()), 2 * kNear) << "no value";
  panel_.scale->categories = {"letters", "digits"};
  panel_.points[0].value = {0, 1, 1};
  EXPECT_LT(distance(at(50, 100), figures::category_colour(*panel_.scale, 0)), kNear);
  EXPECT_LT(distance(at(150, 100), figures::category_colour(*panel_.scale, 1)), kNear);
}

TEST_F(FewPoints, ThatAreNotSelectedAreNearTheGround) {
  add(figures::Marker::kDisc, figures::kOrange, {50}, {100});
  const figures::Colour full = at(50, 100);
  panel_.points[0].faded = true;
  const figures::Colour faded = at(50, 100), background = at(200, 200);
  EXPECT_LT(distance(faded, background), distance(full, background) / 3);
  EXPECT_GT(distance(faded, background), 10) << "dimmed, not gone";
}

TEST_F(FewPoints, InSpaceHideWhatIsFartherAway) {
  panel_.z.label = "depth";
  add(figures::Marker::kDisc, figures::kBlue, {50, 150}, {100, 100}).z = {-1, 1};
  add(figures::Marker::kDisc, figures::kOrange, {50, 150}, {100, 100}).z = {1, -1};
  EXPECT_LT(distance(at(50, 100), figures::kBlue), kNear) << "though orange is drawn later";
  EXPECT_LT(distance(at(150, 100), figures::kOrange), kNear);
  panel_.points[1].z = {-2, -1};
  EXPECT_LT(distance(at(50, 100), figures::kOrange), kNear);
}

TEST_F(FewPoints, InSpaceDoNotHideThroughARingsMiddle) {
  panel_.z.label = "depth";
  add(figures::Marker::kRing, figures::kOrange, {50}, {100}).z = {-1};
  add(figures::Marker::kDisc, figures::kBlue, {50}, {100}).z = {-0.9F};
  EXPECT_LT(distance(at(50, 100), figures::kBlue), kNear);
}

TEST_F(FewPoints, CrossesHaveTwoStrokes) {
  add(figures::Marker::kCross, figures::kGrey, {50}, {100});
  const figures::Colour background = at(200, 200);
  EXPECT_GT(distance(at(50, 100), background), kNear);
  EXPECT_GT(distance(at(55, 105), background), kNear);
  EXPECT_GT(distance(at(45, 105), background), kNear);
  EXPECT_EQ(distance(at(50, 107), background), 0) << "between the strokes";
}

}  // namespace
}  // namespace keyscope::window

// A panned picture is the one that drawing everything anew gives.

#include "app/window/point_layer.hpp"

#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "app/window/glfw_window.hpp"

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

std::vector<std::uint8_t> pixels(const PointLayer& layer) {
  std::vector<std::uint8_t> rgba(std::size_t{4} * kWidth * kHeight);
  glBindTexture(GL_TEXTURE_2D, layer.texture());
  glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
  return rgba;
}

// Grid lines every 50 pixels of the plane.
PlotGrid grid_of(const PlotView& view) {
  PlotGrid grid;
  for (int i = -40; i <= 40; ++i) {
    const Pixel at = view.to_pixel(0.5 * i, 0.5 * i);
    if (at.x >= 0 && at.x < kWidth) grid.x_px.push_back(static_cast<int>(at.x));
    if (at.y >= 0 && at.y < kHeight) grid.y_px.push_back(static_cast<int>(at.y));
  }
  return grid;
}

class PannedLayer : public ::testing::Test {
 protected:
  PannedLayer() {
    view_.set_frame(0, 0, kWidth, kHeight);
    view_.fit({-2, 2, -2, 2}, true);
    panel_.points = {cloud(figures::Marker::kRing, 7, 3000, 1), cloud(figures::Marker::kDisc, 6, 1000, 2)};
  }

  void draw(PointLayer& layer) { layer.draw(panel_, 1, view_, grid_of(view_), theme_, {}, 1); }

  // The share of pixels that differ by more than a shade.
  double difference(const PointLayer& layer) {
    PointLayer whole;
    draw(whole);
    const auto a = pixels(layer), b = pixels(whole);
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

TEST_F(PannedLayer, EqualsOneDrawnWhole) {
  PointLayer layer;
  draw(layer);
  const auto n_whole = layer.points_drawn();
  EXPECT_GT(n_whole, 2000);
  EXPECT_EQ(difference(layer), 0);
  for (const auto& [dx, dy] : {std::pair{5, 0}, {0, 7}, {-11, -3}, {20, -16}, {-2, 31}, {1, 1}, {60, 40}}) {
    view_.pan(static_cast<float>(dx), static_cast<float>(dy));
    draw(layer);
    EXPECT_LT(layer.points_drawn(), n_whole / 2) << "drawn whole";
    // Which of two points in one half pixel is left out may depend on rounding.
    EXPECT_LT(difference(layer), 2e-4) << "after " << dx << ", " << dy;
  }
}

TEST_F(PannedLayer, IsDrawnWholeWhereNothingCanBeKept) {
  PointLayer layer;
  draw(layer);
  for (int step = 0; step < 3; ++step) {
    if (step == 0) view_.zoom_at({100, 100}, 1.3);
    if (step == 1) view_.pan(0.4F, 0.3F);
    if (step == 2) view_.pan(-2 * kWidth, 0);
    draw(layer);
    EXPECT_EQ(difference(layer), 0) << "step " << step;
  }
}

}  // namespace
}  // namespace keyscope::window

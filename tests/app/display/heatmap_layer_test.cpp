// What is drawn of a heatmap has the colours that its figure has in files.

#include "app/display/heatmap_layer.hpp"

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "app/display/glfw_window.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::window {
namespace {

using figures::Colour;
using figures::Reduction;

constexpr int kWidth = 300, kHeight = 200;

class Layer : public ::testing::Test {
 protected:
  void SetUp() override {
    view_.set_frame(0, 0, kWidth, kHeight);
    view_.set_downwards(true);
    heatmap_.values = RowMatrixF(40, 60);
    for (Eigen::Index i = 0; i < heatmap_.values.size(); ++i)
      heatmap_.values.data()[i] = 0.001F * static_cast<float>((i * 37) % 1000);
    heatmap_.values(3, 5) = std::nanf("");
    heatmap_.values(4, 5) = 0;
    heatmap_.low = 0.01F;
  }

  void fit() { view_.fit({heatmap_.x_first, heatmap_.x_last(), heatmap_.y_first, heatmap_.y_last()}, false); }

  std::vector<std::uint8_t> drawn(HeatmapLayer& layer) const {
    layer.draw(view_, theme_);
    std::vector<std::uint8_t> rgba(std::size_t{4} * kWidth * kHeight);
    glBindTexture(GL_TEXTURE_2D, layer.texture());
    glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
    return rgba;
  }

  // y downwards, as on the screen.
  static Colour at(const std::vector<std::uint8_t>& rgba, int x, int y) {
    const auto place = 4 * (static_cast<std::size_t>(kHeight - 1 - y) * kWidth + static_cast<std::size_t>(x));
    return {rgba[place], rgba[place + 1], rgba[place + 2]};
  }

  Colour expected(Pixel pixel) const {
    const PlotPoint at = view_.to_plane({pixel.x + 0.5F, pixel.y + 0.5F});
    const double col = (at.x - heatmap_.x_first) / heatmap_.x_step,
                 row = (at.y - heatmap_.y_first) / heatmap_.y_step;
    const bool inside = at.x >= heatmap_.x_first && at.x < heatmap_.x_last() && at.y >= heatmap_.y_first &&
                        at.y < heatmap_.y_last();
    if (!inside) return channels(theme_.plot);
    const float value = heatmap_.values(static_cast<Eigen::Index>(std::floor(row)),
                                        static_cast<Eigen::Index>(std::floor(col)));
    return std::isnan(value) ? channels(theme_.missing) : figures::colour_of(heatmap_, value);
  }

  static Colour channels(ImU32 colour) {
    return {static_cast<std::uint8_t>(colour >> IM_COL32_R_SHIFT),
            static_cast<std::uint8_t>(colour >> IM_COL32_G_SHIFT),
            static_cast<std::uint8_t>(colour >> IM_COL32_B_SHIFT)};
  }

  // Shades of one step of the table may differ, and pixels whose centre lies on the edge of two cells.
  void expect_the_figures_colours(HeatmapLayer& layer) const {
    const auto rgba = drawn(layer);
    int n_off = 0;
    for (int y = 0; y < kHeight; ++y)
      for (int x = 0; x < kWidth; ++x) {
        const Colour found = at(rgba, x, y);
        const Colour wanted = expected({static_cast<float>(x), static_cast<float>(y)});
        const int distance =
            std::abs(found.r - wanted.r) + std::abs(found.g - wanted.g) + std::abs(found.b - wanted.b);
        n_off += distance > 12 ? 1 : 0;
      }
    EXPECT_LE(n_off, kWidth * kHeight / 100);
  }

  GlfwWindow window_{kWidth, kHeight, false};
  Theme theme_ = make_theme(false);
  PlotView view_;
  figures::Heatmap heatmap_;
};

TEST_F(Layer, HasTheFiguresColours) {
  for (const bool logarithmic : {false, true})
    for (const auto map : {figures::ColourMap::kViridis, figures::ColourMap::kDiverging}) {
      SCOPED_TRACE(logarithmic);
      heatmap_.logarithmic = logarithmic;
      heatmap_.colour_map = map;
      fit();
      HeatmapLayer layer;
      layer.set(heatmap_, Reduction::kMax);
      expect_the_figures_colours(layer);
      view_.zoom_at({70, 90}, 9);
      expect_the_figures_colours(layer);
      view_.pan(23, -31);
      expect_the_figures_colours(layer);
    }
}

TEST_F(Layer, ReducedMatricesLieAtTheirTokens) {
  heatmap_.x_first = heatmap_.y_first = 100;
  heatmap_.x_step = heatmap_.y_step = 4;
  heatmap_.x_end = 100 + 4 * 60 - 3;  // the last cells stand for one token
  heatmap_.y_end = 100 + 4 * 40 - 3;
  fit();
  HeatmapLayer layer;
  layer.set(heatmap_, Reduction::kMean);
  expect_the_figures_colours(layer);
}

TEST_F(Layer, ASingleBrightColumnNeverVanishes) {
  heatmap_.values = RowMatrixF::Zero(2000, 2000);
  heatmap_.values.col(1234).setOnes();
  heatmap_.low = 0;
  fit();
  HeatmapLayer layer;
  layer.set(heatmap_, Reduction::kMax);
  const Colour bright = figures::colour_of(heatmap_, 1);
  for (const double zoom : {1.0, 0.7, 0.6, 0.9}) {
    view_.zoom_at({150, 100}, zoom);
    const auto rgba = drawn(layer);
    int n_bright = 0;
    for (int x = 0; x < kWidth; ++x) n_bright += at(rgba, x, 100) == bright ? 1 : 0;
    EXPECT_GE(n_bright, 1);
    EXPECT_GE(layer.level().x, 3u);
  }
}

// Blocks beside tokens: what came in one column is not smeared over its neighbours.
TEST_F(Layer, FewColumnsBesideManyRowsAreDrawnOneByOne) {
  heatmap_.values = RowMatrixF::Zero(4000, 10);
  for (Eigen::Index column = 0; column < 10; column += 2) heatmap_.values.col(column).setOnes();
  heatmap_.low = 0;
  heatmap_.x_end = heatmap_.y_end = 0;
  fit();
  HeatmapLayer layer;
  layer.set(heatmap_, Reduction::kMean);
  const auto rgba = drawn(layer);
  for (int column = 0; column < 10; ++column)
    EXPECT_EQ(at(rgba, static_cast<int>(view_.to_pixel(column + 0.5, 0).x), 100),
              figures::colour_of(heatmap_, column % 2 == 0 ? 1.0F : 0.0F))
        << column;
  EXPECT_EQ(layer.level().x, 0u);
  EXPECT_GE(layer.level().y, 4u);
}

TEST_F(Layer, ConstantDataHaveTheMiddleColour) {
  heatmap_.values.setConstant(2);
  heatmap_.low = heatmap_.high = 2;
  fit();
  HeatmapLayer layer;
  layer.set(heatmap_, Reduction::kMean);
  EXPECT_EQ(at(drawn(layer), 150, 100), figures::colour_of(heatmap_, 2));
}

}  // namespace
}  // namespace keyscope::window

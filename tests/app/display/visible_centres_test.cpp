#include <cmath>
#include <random>

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
                                      const PixelRect& part = {0, 0, 1000, 1000}, float diameter_px = 4) {
  figures::PointSeries series;
  series.x = x;
  series.y = y;
  std::vector<VisibleCentre> centres;
  std::vector<std::uint64_t> occupied;
  visible_centres(series, pixel_view(), part, diameter_px, centres, occupied);
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

// Places all over the plot, more than can be told apart.
class ManyCentres : public ::testing::Test {
 protected:
  ManyCentres() {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> place(0, 1);
    for (auto* values : {&x_, &y_, &z_})
      for (int i = 0; i < 300'000; ++i) values->push_back(place(random));
  }

  // Whether every point has one of `kept` within so many pixels that lies in front of it, or is one.
  template <typename InFront>
  void expect_covered(const std::vector<VisibleCentre>& kept, float within_px,
                      const InFront& in_front) const {
    constexpr float kPixels = 900;
    std::vector<std::vector<std::uint32_t>> tiles(1000 * 1000);
    for (const VisibleCentre& centre : kept)
      tiles[static_cast<std::size_t>(centre.y) * 1000 + static_cast<std::size_t>(centre.x)].push_back(
          centre.at);
    for (std::uint32_t i = 0; i < x_.size(); i += 101) {
      const auto column = static_cast<int>(50 + kPixels * x_[i]),
                 row = static_cast<int>(950 - kPixels * y_[i]);
      bool covered = false;
      const int reach = static_cast<int>(within_px) + 1;
      for (int y = row - reach; y <= row + reach; ++y)
        for (int x = column - reach; x <= column + reach; ++x)
          for (const std::uint32_t at : tiles[y * 1000 + x])
            covered = covered || at == i ||
                      (in_front(at, i) &&
                       kPixels * std::hypot(x_[at] - x_[i], y_[at] - y_[i]) <= within_px * 1.01F);
      ASSERT_TRUE(covered) << i;
    }
  }

  std::vector<float> x_, y_, z_;
};

TEST_F(ManyCentres, AreThinnedOutByNoMoreThanIsSeen) {
  const auto later = [](std::uint32_t a, std::uint32_t b) { return a > b; };
  const auto small = centres_of(x_, y_, {0, 0, 1000, 1000}, 4);
  EXPECT_LT(small.size(), 270'000U);
  EXPECT_GT(small.size(), kMostCentres) << "a coarser square would be seen";
  expect_covered(small, 2 * std::sqrt(2.0F), later);
  const auto large = centres_of(x_, y_, {0, 0, 1000, 1000}, 12);
  EXPECT_LE(large.size(), kMostCentres);
  expect_covered(large, 2 * 4 * std::sqrt(2.0F), later);
  for (const auto* centres : {&small, &large})
    for (std::size_t i = 1; i < centres->size(); ++i) ASSERT_LT((*centres)[i - 1].at, (*centres)[i].at);
}

TEST_F(ManyCentres, InSpaceKeepTheNearest) {
  figures::PointSeries series;
  series.x = x_;
  series.y = y_;
  series.z = z_;
  std::vector<VisibleCentre> centres;
  std::vector<std::uint32_t> nearest;
  nearest_centres(series, pixel_view(), {0, 0, 1000, 1000}, 12, centres, nearest);
  EXPECT_LE(centres.size(), kMostCentres);
  expect_covered(centres, 2 * 4 * std::sqrt(2.0F),
                 [&](std::uint32_t a, std::uint32_t b) { return z_[a] <= z_[b]; });
}

TEST(VisibleCentres, ThatAreFewEnoughAreAllThere) {
  std::vector<float> x, y;
  for (int i = 0; i < 50'000; ++i) {
    x.push_back(static_cast<float>(i % 250) / 250);
    y.push_back(static_cast<float>(i / 250) / 250);
  }
  EXPECT_EQ(centres_of(x, y, {0, 0, 1000, 1000}, 12).size(), x.size());
}

}  // namespace
}  // namespace keyscope::window

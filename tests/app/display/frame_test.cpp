#include "app/display/frame.hpp"

#include <gtest/gtest.h>

namespace keyscope::window {

namespace {

using std::chrono::milliseconds;

const FrameRate::Clock::time_point kStart = FrameRate::Clock::now();

TEST(FrameRate, TheFirstFrameIsDrawnAtOnce) { EXPECT_EQ(FrameRate().wait(kStart), 0); }

TEST(FrameRate, QuickFramesComeFourTimesASecond) {
  FrameRate rate;
  rate.note_frame(kStart, kStart + milliseconds(1));
  EXPECT_NEAR(rate.wait(kStart + milliseconds(1)), 0.25, 1e-9);
  EXPECT_NEAR(rate.wait(kStart + milliseconds(101)), 0.15, 1e-9);
  EXPECT_EQ(rate.wait(kStart + milliseconds(300)), 0);
}

TEST(FrameRate, SlowFramesTakeASmallShareOfTheTime) {
  FrameRate rate;
  rate.note_frame(kStart, kStart + milliseconds(20));
  EXPECT_NEAR(rate.wait(kStart + milliseconds(20)), 0.02 / FrameRate::kMostShare, 1e-9);
  rate.note_frame(kStart, kStart + milliseconds(700));
  EXPECT_NEAR(rate.wait(kStart + milliseconds(700)), FrameRate::kMostWaitSeconds, 1e-9)
      << "but the window still moves";
}

TEST(FrameRate, WhoUsesTheWindowDoesNotWait) {
  FrameRate rate;
  rate.note_frame(kStart, kStart + milliseconds(40));
  rate.note_input(kStart + milliseconds(50));
  EXPECT_EQ(rate.wait(kStart + milliseconds(60)), 0);
  EXPECT_GT(rate.wait(kStart + milliseconds(1060)), 0);
}

PlotView view_of(float width, float height) {
  PlotView view;
  view.set_frame(10, 20, width, height);
  view.fit({0, 1, 0, 1}, true);
  return view;
}

TEST(WholePixelShift, IsWhatWasPanned) {
  const PlotView from = view_of(400, 300);
  PlotView to = from;
  EXPECT_EQ(whole_pixel_shift(from, to), PixelShift());
  for (int i = 0; i < 1000; ++i) to.pan(3, -1);
  EXPECT_EQ(whole_pixel_shift(from, to), (PixelShift{3000, -1000}));
}

TEST(WholePixelShift, IsNoneForFractionsAnotherScaleOrAnotherSize) {
  const PlotView from = view_of(400, 300);
  PlotView fraction = from, zoomed = from, far = from;
  fraction.pan(0.5F, 0);
  zoomed.zoom_at({210, 170}, 1.1);
  far.pan(1e12F, 0);
  EXPECT_FALSE(whole_pixel_shift(from, fraction));
  EXPECT_FALSE(whole_pixel_shift(from, zoomed));
  EXPECT_FALSE(whole_pixel_shift(from, far));
  EXPECT_FALSE(whole_pixel_shift(from, view_of(400, 301)));
}

// Each pixel is either in one exposed part or has its source in the old picture.
TEST(ExposedParts, AreWhatAShiftDoesNotCover) {
  const int width = 7, height = 5;
  for (int dx = -8; dx <= 8; ++dx)
    for (int dy = -6; dy <= 6; ++dy) {
      const auto parts = exposed_parts(width, height, {dx, dy});
      for (int x = 0; x < width; ++x)
        for (int y = 0; y < height; ++y) {
          int covered = 0;
          for (const PixelRect& part : parts)
            covered += x >= part.x_low && x < part.x_high && y >= part.y_low && y < part.y_high ? 1 : 0;
          const int from_x = x - dx, from_y = y - dy;
          const bool kept = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
          EXPECT_EQ(covered, kept ? 0 : 1)
              << "pixel " << x << ", " << y << " shifted by " << dx << ", " << dy;
        }
    }
}

TEST(GridLines, FollowAShiftWhereTheyStayInSight) {
  const PlotGrid from{{10, 60, 95}, {20}};
  EXPECT_TRUE(lines_follow(from, {{15, 65}, {20}}, 100, 50, {5, 0}));       // 95 has left
  EXPECT_TRUE(lines_follow(from, {{3, 15, 65}, {20}}, 100, 50, {5, 0}));    // 3 is new, in what is exposed
  EXPECT_FALSE(lines_follow(from, {{15, 66}, {20}}, 100, 50, {5, 0}));      // rounded otherwise
  EXPECT_FALSE(lines_follow(from, {{15, 40, 65}, {20}}, 100, 50, {5, 0}));  // other ticks
  EXPECT_FALSE(lines_follow(from, {{15, 65}, {20}}, 100, 50, {5, 1}));
}

}  // namespace

}  // namespace keyscope::window

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

}  // namespace

}  // namespace keyscope::window

#include "capture/inference/capture_control.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

TEST(CaptureControl, LetsBlocksPassUntilItIsPaused) {
  CaptureControl control;
  control.wait_for_turn();
  EXPECT_FALSE(control.paused());
  EXPECT_FALSE(control.cancelled());
}

TEST(CaptureControl, AStepLetsOneBlockPassAndResumeAll) {
  CaptureControl control;
  control.pause();
  EXPECT_TRUE(control.paused());
  std::atomic<int> passed = 0;
  std::thread worker([&] {
    for (int i = 0; i < 5; ++i) {
      control.wait_for_turn();
      ++passed;
    }
  });
  control.step();
  while (passed < 1) std::this_thread::yield();
  control.step();
  control.step();
  while (passed < 3) std::this_thread::yield();
  EXPECT_EQ(passed, 3);
  EXPECT_TRUE(control.paused());
  control.resume();
  worker.join();
  EXPECT_EQ(passed, 5);
}

TEST(CaptureControl, AStepBeforeAPauseIsNotKeptForIt) {
  CaptureControl control;
  control.step();
  control.pause();
  std::atomic<bool> passed = false;
  std::thread worker([&] {
    control.wait_for_turn();
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(passed);
  control.resume();
  worker.join();
}

TEST(CaptureControl, CancelWakesWhoWaits) {
  CaptureControl control;
  control.pause();
  std::atomic<bool> cancelled = false;
  std::thread worker([&] {
    try {
      control.wait_for_turn();
    } catch (const Cancelled&) {
      cancelled = true;
    }
  });
  control.cancel();
  worker.join();
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(control.cancelled());
  EXPECT_THROW(control.wait_for_turn(), Cancelled);
}

}  // namespace
}  // namespace keyscope::capture

#include "app/session/live.hpp"

#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "tests/app/session/live_capture_double.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::session {
namespace {

// Waits until `done` holds; the test fails if it never does.
template <typename Condition>
bool eventually(const Condition& done) {
  for (int i = 0; i < 4000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(LiveRunner, RunsToTheEnd) {
  LiveRunner runner(invented_capture(5), {});
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kDone; }));
  const auto info = runner.recording()->info();
  EXPECT_TRUE(info->complete);
  EXPECT_EQ(info->runs.at(1).blocks_done, 5);
}

TEST(LiveRunner, PausesStepsAndGoesOn) {
  std::atomic<int> blocks = 0;
  LiveCapture capture = [&](std::span<recording::RecordSink* const>, capture::CaptureControl& control) {
    for (int i = 0; i < 100000; ++i) {
      control.wait_for_turn();
      ++blocks;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  LiveRunner runner(capture, {});
  ASSERT_TRUE(eventually([&] { return blocks > 2; }));
  runner.pause();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the block in flight
  const int paused_at = blocks;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(blocks, paused_at);
  EXPECT_EQ(runner.status().stage, LiveStage::kPaused);
  runner.step();
  ASSERT_TRUE(eventually([&] { return blocks == paused_at + 1; }));
  runner.resume();
  ASSERT_TRUE(eventually([&] { return blocks > paused_at + 3; }));
  runner.cancel();
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kCancelled; }));
}

TEST(LiveRunner, CancellingAPausedRunEndsIt) {
  LiveRunner runner(invented_capture(2000), {});
  runner.pause();
  runner.cancel();
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kCancelled; }));
}

// A model that loads cannot be interrupted; what was cancelled meanwhile does not begin.
TEST(LiveRunner, CancelledWhileTheModelLoadsItStopsBeforeTheFirstBlock) {
  std::atomic<bool> loaded = false;
  const LiveCapture invented = invented_capture(5);
  LiveRunner runner(
      [&](std::span<recording::RecordSink* const> sinks, capture::CaptureControl& control) {
        while (!loaded) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        invented(sinks, control);
      },
      {});
  EXPECT_EQ(runner.status().stage, LiveStage::kStarting);
  runner.cancel();
  EXPECT_EQ(runner.status().stage, LiveStage::kStopping);
  loaded = true;
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kCancelled; }));
  EXPECT_EQ(runner.recording()->info()->runs.at(0).blocks_done, 0);
  runner.cancel();  // of what has ended: nothing happens
  EXPECT_EQ(runner.status().stage, LiveStage::kCancelled);
}

TEST(LiveRunner, AModelThatCannotBeLoadedFailsWithoutABlock) {
  LiveRequest request;
  request.model_folder = "/no/such/model";
  request.prompt = "hello";
  request.options.policies = {{"none", {}}};
  LiveRunner runner(make_live_capture(request), {});
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kFailed; }));
  EXPECT_NE(runner.status().message.find("/no/such/model"), std::string::npos) << runner.status().message;
  EXPECT_TRUE(runner.recording()->info()->runs.empty());
}

TEST(LiveRunner, APromptFileThatIsNoTextFailsNamingIt) {
  const test::ScratchFolder folder;
  LiveRequest request;
  request.model_folder = KEYSCOPE_SOURCE_DIR "/assets/demo_model";
  request.options.policies = {{"none", {}}};
  request.prompt_file = folder.file("prompt.txt");
  {
    LiveRunner gone(make_live_capture(request), {});
    ASSERT_TRUE(eventually([&] { return gone.status().stage == LiveStage::kFailed; }));
    EXPECT_NE(gone.status().message.find("prompt.txt"), std::string::npos) << gone.status().message;
  }
  std::ofstream(request.prompt_file, std::ios::binary) << "bytes \xff\xfe";
  LiveRunner foreign(make_live_capture(request), {});
  ASSERT_TRUE(eventually([&] { return foreign.status().stage == LiveStage::kFailed; }));
  EXPECT_NE(foreign.status().message.find("UTF-8"), std::string::npos) << foreign.status().message;
}

TEST(LiveRunner, ReportsWhatACaptureThrowsAndKeepsItsBlocks) {
  LiveRunner runner(invented_capture(5, 3), {});
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kFailed; }));
  EXPECT_EQ(runner.status().message, "the invented model broke");
  EXPECT_EQ(runner.recording()->info()->runs.at(0).blocks_done, 3);
}

TEST(LiveRunner, ClosingWhileRunningStopsIt) {
  std::shared_ptr<const recording::Recording> recording;
  {
    LiveRunner runner(invented_capture(20000), {});
    recording = runner.recording();
    ASSERT_TRUE(eventually([&] {
      const auto info = recording->info();
      return !info->runs.empty() && info->runs[0].blocks_done > 0;
    }));
  }
  EXPECT_FALSE(recording->info()->complete);
  EXPECT_GT(recording->info()->runs[0].blocks_done, 0);
}

}  // namespace
}  // namespace keyscope::session

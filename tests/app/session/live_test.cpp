#include "app/session/live.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/session/live_capture_double.hpp"

namespace keyscope::session {

namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// Reports of a capture at moments of the test's choosing.
class Pace : public ::testing::Test {
 protected:
  void report(std::int64_t tokens, int at_second, bool held = false) {
    capture::CaptureProgress progress;
    progress.tokens_done = tokens;
    progress.elapsed_seconds = at_second;
    pace.note(progress, LivePace::Clock::time_point() + seconds(at_second), held);
  }

  LivePace pace;
};

TEST_F(Pace, TheFirstBlockGoesByTheCapturesClock) {
  EXPECT_EQ(pace.prompt_rate(), 0);
  report(128, 2);
  EXPECT_DOUBLE_EQ(pace.prompt_rate(), 64);
  EXPECT_EQ(pace.generation_rate(), 0);
}

TEST_F(Pace, FollowsAChange) {
  for (int i = 1; i <= 5; ++i) report(std::int64_t{100} * i, i);
  EXPECT_DOUBLE_EQ(pace.prompt_rate(), 100);
  for (int i = 1; i <= 20; ++i) report(500 + 10 * i, 5 + i);
  EXPECT_NEAR(pace.prompt_rate(), 10, 1);
}

TEST_F(Pace, GeneratedTokensHaveARateOfTheirOwn) {
  report(100, 1);
  report(200, 2);
  report(201, 3);
  report(202, 5);
  EXPECT_DOUBLE_EQ(pace.prompt_rate(), 100);
  EXPECT_LT(pace.generation_rate(), 1);
  EXPECT_EQ(pace.last_rate(), pace.generation_rate());
}

TEST_F(Pace, TimeSpentPausedDoesNotCount) {
  report(100, 1);
  report(200, 1000, true);
  report(300, 1001);
  EXPECT_DOUBLE_EQ(pace.prompt_rate(), 100);
}

TEST_F(Pace, TimeLeftIsKnownWhenEveryPacesIs) {
  EXPECT_FALSE(seconds_left({100, 0}, pace));
  report(100, 1);
  EXPECT_DOUBLE_EQ(*seconds_left({300, 0}, pace), 3);
  EXPECT_FALSE(seconds_left({300, 10}, pace));
  report(101, 3);
  EXPECT_DOUBLE_EQ(*seconds_left({300, 10}, pace), 23);
  EXPECT_DOUBLE_EQ(*seconds_left({}, pace), 0);
}

TEST(WorkLeft, IsWhatTheRunsHaveNotSeen) {
  recording::RecordingInfo info;
  info.prompt.id.assign(100, 7);
  info.prompt.offset.assign(101, 0);
  info.runs.resize(2);
  for (auto& run : info.runs) run.plan.max_generated = 11;  // ten of them are fed back
  info.runs[0].n_tokens = 104;
  info.runs[1].n_tokens = 30;
  const LiveWork work = work_left(info);
  EXPECT_EQ(work.prompt_tokens, 70);
  EXPECT_EQ(work.generated_tokens, 16);
  info.complete = true;  // a run may have ended early
  EXPECT_EQ(work_left(info).generated_tokens, 0);
}

// Waits until `done` holds; the test fails if it never does.
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

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::Not;
using ::testing::StartsWith;

recording::TokenText words(const std::vector<std::string>& texts) {
  recording::TokenText text;
  text.offset.push_back(0);
  for (const std::string& word : texts) {
    text.id.push_back(1);
    text.text += word;
    text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
  }
  return text;
}

recording::RecordingInfo one_run() {
  recording::RecordingInfo info;
  info.prompt = words({"The", " magic", " number", " is"});
  info.runs.resize(1);
  info.runs[0].plan.name = "keydiff";
  info.runs[0].plan.n_prompt_blocks = 2;
  info.runs[0].plan.max_generated = 5;
  info.runs[0].n_tokens = 2;
  return info;
}

LiveStatus running(std::int64_t block, std::int64_t tokens, double elapsed) {
  LiveStatus status;
  status.stage = LiveStage::kRunning;
  status.progress.run = "keydiff";
  status.progress.block = block;
  status.progress.n_blocks = 6;
  status.progress.tokens_done = tokens;
  status.progress.tokens_total = 8;
  status.progress.elapsed_seconds = elapsed;
  status.pace.note(status.progress, {}, false);
  return status;
}

TEST(DescribeLive, APromptGoesByInBlocks) {
  EXPECT_EQ(describe_live(running(1, 2, 0.5), one_run()), "keydiff, block 1 of 2, 4.0 tokens/s");
}

TEST(DescribeLive, GeneratedTextIsShownAsItComes) {
  recording::RecordingInfo info = one_run();
  info.runs[0].n_tokens = 5;
  info.runs[0].generated = words({" 7", ".", "\n"});
  LiveStatus status = running(3, 4, 0.5);
  ++status.progress.tokens_done;
  status.pace.note(status.progress, LivePace::Clock::time_point() + std::chrono::seconds(2), false);
  EXPECT_THAT(describe_live(status, info),
              AllOf(StartsWith("keydiff, generated token 2 of 5, 0.5 tokens/s, 6 s left: "), HasSubstr(" 7."),
                    EndsWith("↵")));
}

TEST(DescribeLive, EveryStageSaysWhereThingsStand) {
  LiveStatus status = running(1, 2, 0.5);
  status.stage = LiveStage::kPaused;
  EXPECT_THAT(describe_live(status, one_run()), AllOf(StartsWith("paused: keydiff"), Not(HasSubstr("left"))));
  status.stage = LiveStage::kFailed;
  status.message = "no such model";
  EXPECT_THAT(describe_live(status, one_run()), HasSubstr("no such model"));
  status.stage = LiveStage::kCancelled;
  EXPECT_THAT(describe_live(status, {}), HasSubstr("kept"));
  status.stage = LiveStage::kRunning;
  EXPECT_THAT(describe_live(status, {}), HasSubstr("block 1 of 6"));  // nothing has arrived yet
}

}  // namespace

}  // namespace keyscope::session

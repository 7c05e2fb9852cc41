#include "app/session/live_pace.hpp"

#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

using std::chrono::seconds;

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
  for (int i = 1; i <= 5; ++i) report(100 * i, i);
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

}  // namespace
}  // namespace keyscope::session

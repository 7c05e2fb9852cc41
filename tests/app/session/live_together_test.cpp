// Policies that go together: begun paused, stepped, stopped at a token, side by side.

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/session/live.hpp"
#include "app/session/session.hpp"
#include "tests/app/session/live_capture_double.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::session {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// 50 tokens in blocks of 16 under three policies.
LiveCapture together() {
  return [](std::span<recording::RecordSink* const> sinks, capture::CaptureControl& control) {
    capture::CaptureOptions options = test::full_cache_options();
    options.policies = test::policies({"none", "keydiff", "sink"});
    options.budget = 12;
    options.schedule = capture::Schedule::kTogether;
    capture::run_capture(test::tiny_model(), options, sinks, control);
  };
}

std::vector<std::int64_t> blocks_of(const recording::RecordingInfo& info) {
  std::vector<std::int64_t> blocks;
  for (const recording::RunInfo& run : info.runs) blocks.push_back(run.blocks_done);
  return blocks;
}

TEST(LiveTogether, BeginsPausedAndStepsThroughAllRunsAtOnce) {
  LiveRunner runner(together(), {}, true);
  ASSERT_TRUE(eventually([&] { return runner.recording()->info()->runs.size() == 3; }));
  EXPECT_EQ(runner.status().stage, LiveStage::kPaused);
  EXPECT_THAT(describe_live(runner.status(), *runner.recording()->info()),
              HasSubstr("before the first block"));
  EXPECT_THAT(blocks_of(*runner.recording()->info()), Each(0));
  runner.step();
  ASSERT_TRUE(eventually([&] {
    return blocks_of(*runner.recording()->info()) == std::vector<std::int64_t>{1, 1, 1};
  }));
  EXPECT_THAT(describe_live(runner.status(), *runner.recording()->info()),
              StartsWith("paused: 3 runs together, block 1 of 4"));
}

TEST(LiveTogether, StopsOnceATokenWasReadAndGoesOn) {
  LiveRunner runner(together(), {}, true);
  runner.stop_after(20);
  EXPECT_EQ(runner.status().stop_after, 20);
  runner.resume();
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kPaused; }));
  EXPECT_THAT(blocks_of(*runner.recording()->info()), ElementsAre(2, 2, 2));
  EXPECT_FALSE(runner.status().stop_after) << "it was reached";
  runner.resume();
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kDone; }));
  EXPECT_THAT(blocks_of(*runner.recording()->info()), ElementsAre(4, 4, 4));
}

TEST(LiveTogether, StandSideBySideAtTheSameBlock) {
  Session session({});
  session.start_live(together(), {}, {}, true);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().loaded(); }));
  EXPECT_THAT(session.state().beside, ElementsAre(RunId{0, 1}, RunId{0, 2}));
  session.live()->stop_after(31);
  session.live()->resume();
  ASSERT_TRUE(drain_until(session, [&] { return session.live_status()->stage == LiveStage::kPaused; }));
  ASSERT_TRUE(drain_until(session, [&] { return session.state().selection.block == 1; }));
  EXPECT_EQ(session.state().selection.run, 0) << "the selected run stays selected";
  for (const RunTile& tile : session.state().tiles) EXPECT_EQ(tile.run().blocks_done, 2);
  session.live()->set_rate(1000);
  session.live()->resume();
  ASSERT_TRUE(drain_until(session, [&] { return session.live_status()->stage == LiveStage::kDone; }));
}

// Which run is selected must not depend on how fast the machine is.
TEST(LiveTogether, BeginAtTheFirstRunEvenIfTheyAreOverByTheFirstLook) {
  Session session({});
  session.start_live(together(), {}, {}, false);
  ASSERT_TRUE(eventually([&] { return session.live()->status().stage == LiveStage::kDone; }));
  ASSERT_TRUE(drain_until(session, [&] { return session.state().loaded(); }));
  EXPECT_EQ(session.state().selection.run, 0);
  EXPECT_THAT(session.state().beside, ElementsAre(RunId{0, 1}, RunId{0, 2}));
}

}  // namespace
}  // namespace keyscope::session

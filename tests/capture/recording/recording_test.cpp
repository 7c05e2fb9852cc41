#include "capture/recording/recording.hpp"

#include <gtest/gtest.h>

namespace keyscope::recording {
namespace {

using Positions = std::vector<std::int32_t>;

// Six tokens in blocks {0,1} {2,3} {4,5}: token 1 went at the end of block 0, token 0 and 3 at that of
// block 1.
const Positions kEvictedAt = {1, 0, -1, 1, -1, -1};

RunInfo three_blocks() {
  RunInfo run;
  run.block_start = {0, 2, 4};
  run.blocks_done = 3;
  run.n_tokens = 6;
  return run;
}

TEST(RetainedPositions, AreThoseSeenAndNotYetEvicted) {
  EXPECT_EQ(retained_positions(kEvictedAt, 2, 0), (Positions{0}));
  EXPECT_EQ(retained_positions(kEvictedAt, 4, 1), (Positions{2}));
  EXPECT_EQ(retained_positions(kEvictedAt, 6, 2), (Positions{2, 4, 5}));
}

TEST(RetainedPositions, BeforeTheFirstBlockAreNone) {
  EXPECT_EQ(retained_positions(kEvictedAt, 0, -1), Positions{});
  EXPECT_EQ(retained_positions({}, 10, 3), Positions{});
}

TEST(RetainedPositions, DoNotGoBeyondTheRowsThereAre) {
  EXPECT_EQ(retained_positions(kEvictedAt, 100, 2), (Positions{2, 4, 5}));
}

TEST(TokensSeen, IsWhereTheNextBlockStarts) {
  const RunInfo run = three_blocks();
  EXPECT_EQ(tokens_seen(run, -1), 0);
  EXPECT_EQ(tokens_seen(run, 0), 2);
  EXPECT_EQ(tokens_seen(run, 1), 4);
  EXPECT_EQ(tokens_seen(run, 2), 6);
  EXPECT_EQ(tokens_seen(run, 99), 6);
}

TEST(RunIndex, FindsByName) {
  RecordingInfo info;
  info.runs.resize(2);
  info.runs[0].plan.name = "none";
  info.runs[1].plan.name = "keydiff-2";
  EXPECT_EQ(info.run_index("keydiff-2"), 1);
  EXPECT_EQ(info.run_index("keydiff"), -1);
}

}  // namespace
}  // namespace keyscope::recording

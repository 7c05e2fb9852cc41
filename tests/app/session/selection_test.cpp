#include "app/session/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/session/synthetic_recording.hpp"

namespace keyscope::session {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

recording::RecordingInfo small_info() {
  return *SyntheticRecording({.n_tokens = 320, .block_size = 64, .budget = 128}).info();
}

TEST(Selection, StartsAtAnEvictingRunAtTheEndOfThePrompt) {
  const Selection selection = resolve_selection(small_info(), {});
  EXPECT_EQ(selection, (Selection{1, 0, 0, 4}));
}

TEST(Selection, StartsAtARunThatHasBlocks) {
  recording::RecordingInfo info = small_info();
  info.runs[1].blocks_done = 0;
  EXPECT_EQ(resolve_selection(info, {}).run, 2);
  info.runs[2].blocks_done = 0;
  EXPECT_EQ(resolve_selection(info, {}).run, 0);
  info.runs[0].blocks_done = 0;
  EXPECT_EQ(resolve_selection(info, {}).run, 0);
}

TEST(Selection, TakesTheCommandLinesNames) {
  const auto selection =
      resolve_selection(small_info(), {.run = "sink", .layer = 3, .kv_head = 2, .block = 1});
  EXPECT_EQ(selection, (Selection{2, 3, 2, 1}));
  EXPECT_EQ(selection_options(small_info(), selection), "--run sink --layer 3 --kv-head 2 --block 1");
}

TEST(Selection, RefusesWhatIsNotThereAndSaysWhatIs) {
  EXPECT_THAT([] { resolve_selection(small_info(), {.run = "h2o"}); },
              ThrowsMessage<UsageError>(HasSubstr("none, keydiff, sink")));
  EXPECT_THROW(resolve_selection(small_info(), {.layer = 4}), UsageError);
  EXPECT_THROW(resolve_selection(small_info(), {.kv_head = 4}), UsageError);
  EXPECT_THROW(resolve_selection(small_info(), {.block = 5}), UsageError);
  EXPECT_THROW(resolve_selection(recording::RecordingInfo(), {}), UsageError);
}

TEST(Selection, IsOfAHeadWhoseRowsWereRecorded) {
  recording::RecordingInfo info = small_info();
  info.heads.kv_heads = {1, 3};
  EXPECT_EQ(resolve_selection(info, {}).kv_head, 1);
  EXPECT_EQ(resolve_selection(info, {.kv_head = 3}).kv_head, 3);
  EXPECT_THAT([&] { resolve_selection(info, {.kv_head = 2}); },
              ThrowsMessage<UsageError>(HasSubstr("KV head 2 was not recorded; recorded are 1, 3")));
  EXPECT_EQ(clamp_selection(info, {0, 0, 0, 0}).kv_head, 1);
  EXPECT_EQ(clamp_selection(info, {0, 0, 9, 0}).kv_head, 3);
}

TEST(Selection, ClampsToWhatIsThere) {
  EXPECT_EQ(clamp_selection(small_info(), {9, 9, 9, 99}), (Selection{2, 3, 3, 4}));
  EXPECT_EQ(clamp_selection(small_info(), {-1, -1, -1, 2}), (Selection{0, 0, 0, 2}));
}

}  // namespace
}  // namespace keyscope::session

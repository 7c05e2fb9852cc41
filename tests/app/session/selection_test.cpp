#include "app/session/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

namespace {

using ::testing::ElementsAre;

constexpr SyntheticSize kSize{.n_tokens = 320, .block_size = 64, .budget = 128};

std::shared_ptr<recording::RecordingInfo> info_of(const SyntheticSize& size) {
  return std::make_shared<recording::RecordingInfo>(*SyntheticRecording(size).info());
}

TEST(RunChoice, TheOpenRecordingsRunsComeFirst) {
  const auto info = info_of(kSize);
  const auto choices = run_choices(*info, {info_of({.n_tokens = 320, .n_runs = 1})}, 0, 0);
  ASSERT_EQ(choices.size(), 4U);
  EXPECT_EQ(choices[1], (RunChoice{{0, 1}, "keydiff", ""}));
  EXPECT_EQ(choices[3], (RunChoice{{1, 0}, "none", ""}));
}

TEST(RunChoice, SaysWhyARunCannotBeCompared) {
  const auto info = info_of(kSize);
  const auto refusal = [&](const recording::RecordingInfo& other, int layer = 3, int kv_head = 1) {
    return comparison_refusal(*info, other, layer, kv_head);
  };
  EXPECT_EQ(refusal(*info_of(kSize)), "");
  EXPECT_EQ(refusal(*info_of({.n_tokens = 321})), "other prompt");
  auto other = info_of(kSize);
  other->prompt.id[7] += 1;
  EXPECT_EQ(refusal(*other), "other prompt") << "of the same length";
  EXPECT_EQ(refusal(*info_of({.head_dim = 8, .n_tokens = 320})), "other model");
  other = info_of(kSize);
  other->provenance.model_sha256 = "another";
  EXPECT_EQ(refusal(*other), "other model") << "of the same shape";
  other = info_of(kSize);
  other->layers = {0, 2};
  EXPECT_EQ(refusal(*other), "no layer 3");
  EXPECT_EQ(refusal(*other, 2), "");
  EXPECT_EQ(refusal(*info_of({.n_tokens = 320, .heads = {0, 2}})), "no KV head 1");
  other = info_of(kSize);
  other->runs[1].blocks_done = 0;
  EXPECT_EQ(run_choices(*info, {other}, 0, 0)[4].refusal, "no block yet");
}

TEST(RunChoice, ABlockIsTheOneThatHadSeenAsMuch) {
  const auto of = info_of(kSize)->runs[1];                                      // 5 blocks of 64
  const auto finer = info_of({.n_tokens = 320, .block_size = 32})->runs[1];     // 10 of 32
  const auto coarser = info_of({.n_tokens = 320, .block_size = 128})->runs[1];  // 128, 256, 320
  const auto shorter = info_of({.n_tokens = 128, .block_size = 64})->runs[1];   // 2 of 64
  const std::vector<std::int64_t> blocks{0, 1, 2, 3, 4};
  for (const std::int64_t block : blocks) {
    EXPECT_EQ(matching_block(of, block, of), block);
    EXPECT_EQ(matching_block(of, block, finer), 2 * block + 1);
    EXPECT_EQ(matching_block(of, block, coarser), block / 2);
    EXPECT_EQ(matching_block(of, block, shorter), std::min<std::int64_t>(block, 1)) << "clamped";
  }
  EXPECT_EQ(matching_block(of, -1, of), -1);
  recording::RunInfo nothing = of;
  nothing.blocks_done = 0;
  EXPECT_EQ(matching_block(of, 3, nothing), -1);
}

TEST(RunChoice, WhatIsSelectedGivesItsPlaceToWhatWas) {
  EXPECT_THAT(after_selecting({{0, 1}, {0, 2}}, 0, 2), ElementsAre(RunId{0, 0}, RunId{0, 1}));
  EXPECT_THAT(after_selecting({{0, 1}, {1, 2}}, 0, 2), ElementsAre(RunId{0, 1}, RunId{1, 2}))
      << "an earlier recording's run is another one";
}

SelectionHistory::Snapshot head(int layer, std::int64_t block = 0) {
  return {{1, layer, 0, block}, "keyspace", {}};
}

TEST(SelectionHistory, GoesBackAndForth) {
  SelectionHistory history;
  EXPECT_EQ(history.undo(), std::nullopt);
  for (const int layer : {0, 1, 2}) history.note(head(layer));
  EXPECT_EQ(history.undo(), head(1));
  EXPECT_EQ(history.undo(), head(0));
  EXPECT_EQ(history.undo(), std::nullopt) << "where it began";
  EXPECT_EQ(history.redo(), head(1));
  EXPECT_EQ(history.redo(), head(2));
  EXPECT_EQ(history.redo(), std::nullopt);
}

TEST(SelectionHistory, ForgetsWhatWasUndoneWhenAnotherWayIsTaken) {
  SelectionHistory history;
  for (const int layer : {0, 1, 2}) history.note(head(layer));
  history.undo();
  history.note(head(7));
  EXPECT_FALSE(history.can_redo());
  EXPECT_EQ(history.undo(), head(1));
}

TEST(SelectionHistory, TakesAWalkThroughBlocksAsOneStep) {
  SelectionHistory history;
  history.note(head(0, 0));
  for (int block = 1; block < 20; ++block) history.note(head(0, block));
  history.note(head(1, 19));
  for (int block = 18; block > 9; --block) history.note(head(1, block));
  EXPECT_EQ(history.undo(), head(1, 19));
  EXPECT_EQ(history.undo(), head(0, 19));
  EXPECT_EQ(history.undo(), head(0, 0));
}

TEST(SelectionHistory, HoldsTokensAndViewsAsWell) {
  SelectionHistory history;
  history.note({{}, "keyspace", {}});
  history.note({{}, "keyspace", 5});
  history.note({{}, "text", 5});
  history.note({{}, "text", 5});
  EXPECT_EQ(history.undo()->view, "keyspace");
  EXPECT_EQ(history.undo()->locked, std::nullopt);
  EXPECT_FALSE(history.can_undo());
}

TEST(SelectionHistory, KeepsABoundedNumber) {
  SelectionHistory history;
  for (int layer = 0; layer < 1000; ++layer) history.note(head(layer));
  int n = 0;
  while (history.undo()) ++n;
  EXPECT_EQ(n, static_cast<int>(SelectionHistory::kMost) - 1);
  EXPECT_EQ(history.redo(), head(1000 - static_cast<int>(SelectionHistory::kMost) + 1));
}

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

TEST(TypedSelection, WordsLettersAndOrdersMeanTheSame) {
  for (const char* text : {"layer 3 head 2 block 7", "l3 h2 b7", "Block 7, KV head 2, Layer 3",
                           "--layer 3 --kv-head 2 --block 7", "layer=3 kv-head=2 block=7"}) {
    const auto request = typed_selection(text);
    ASSERT_TRUE(request) << text;
    EXPECT_EQ(request->layer, 3) << text;
    EXPECT_EQ(request->kv_head, 2) << text;
    EXPECT_EQ(request->block, 7) << text;
    EXPECT_EQ(describe_request(*request), "Layer 3, KV head 2, block 7");
  }
  const auto head = typed_selection("head 2");
  ASSERT_TRUE(head);
  EXPECT_FALSE(head->layer || head->block);
  EXPECT_EQ(describe_request(*head), "KV head 2");
}

TEST(TypedSelection, OtherWordsAreNone) {
  for (const char* text : {"", " ", "layer", "3", "layer three", "layer -x", "export 3", "layer 3 and",
                           "layer 99999999999999999999"})
    EXPECT_FALSE(typed_selection(text)) << text;
}

TEST(TypedSelection, WhatIsNotThereIsRefusedWithWhatIs) {
  const auto info = SyntheticRecording({.n_tokens = 320, .block_size = 64, .heads = {0, 2}}).info();
  const Selection now;
  EXPECT_EQ(selection_refusal(*info, now, {.layer = 3, .kv_head = 2, .block = 4}), "");
  EXPECT_THAT(selection_refusal(*info, now, {.layer = 4}), HasSubstr("0 to 3"));
  EXPECT_THAT(selection_refusal(*info, now, {.kv_head = 1}), HasSubstr("0, 2"));
  EXPECT_THAT(selection_refusal(*info, now, {.block = 5}), HasSubstr("0 to 4"));
}

TEST(TypedSelection, IsSelectedInOneStepOrRefused) {
  Session session({});
  session.show(small_recording());
  ASSERT_TRUE(settle(session));
  session.select_typed({.layer = 2, .kv_head = 1, .block = 3});
  EXPECT_EQ(session.state().selection, (Selection{1, 2, 1, 3}));
  session.undo();
  EXPECT_EQ(session.state().selection, (Selection{1, 0, 0, 4}));
  session.select_typed({.layer = 9});
  EXPECT_EQ(session.state().selection.layer, 0);
  EXPECT_THAT(session.state().notice.text, HasSubstr("0 to 3"));
}

}  // namespace

}  // namespace keyscope::session

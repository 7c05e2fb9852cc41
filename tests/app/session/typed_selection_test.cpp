#include "app/session/typed_selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/session/settled_session.hpp"

namespace keyscope::session {
namespace {

using ::testing::HasSubstr;

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

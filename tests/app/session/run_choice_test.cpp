#include "app/session/run_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/session/synthetic_recording.hpp"

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

}  // namespace
}  // namespace keyscope::session

#include "app/figures/key_values.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::NanSensitiveFloatEq;

constexpr float kNone = NAN;

// Six tokens in blocks of two in the plane; token 1 goes after block 1, tokens 0 and 2 after block 2.
FakeRecording three_blocks() {
  FakeRecording recording(1, 2, 1, 2, 6, 2);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 3);
  recording.add_run("l2norm", 3);
  recording.add_run("h2o", 3);
  for (const int run : {0, 1, 2, 3}) {
    recording.keys_of(run, 0, 0) << 1, 0, 0, 1, 1, 0, 3, 4, 1, 1, 0, -2;
    recording.evicted_at(run, 0, 0) =
        run == 0 ? std::vector<std::int32_t>(6, -1) : std::vector<std::int32_t>{2, 1, 2, -1, -1, -1};
  }
  return recording;
}

KeyValues values_of(const FakeRecording& recording, int run, std::int64_t block, KeyColour colour) {
  const std::int64_t n_seen = 2 * (block + 1);
  return key_values(recording, *recording.info(), {run, 0, 0, block, n_seen}, colour,
                    recording.keys(run, 0, 0, 0, n_seen), recording.trace(run, 0, 0));
}

TEST(KeyValues, ScoresAreThePolicysOfTheRowsItHad) {
  const FakeRecording recording = three_blocks();
  // Before it evicts at the end of block 1, KeyDiff has all four rows, of which the mean is (5, 5) / 4.
  const KeyValues first = values_of(recording, 1, 1, KeyColour::kScore);
  const float half = -std::sqrt(0.5F);
  EXPECT_THAT(first.values, ElementsAre(FloatNear(half, 1e-6F), FloatNear(half, 1e-6F),
                                        FloatNear(half, 1e-6F), FloatNear(-7 / std::sqrt(50.0F), 1e-6F)));
  EXPECT_EQ(first.scale.long_name, "score by keydiff");
  // At the end of block 2 token 1 is gone: the mean is that of the other five, (6, 3) / 5.
  const KeyValues second = values_of(recording, 1, 2, KeyColour::kScore);
  EXPECT_TRUE(std::isnan(second.values[1]));
  EXPECT_NEAR(second.values[0], -2 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(second.values[5], 1 / std::sqrt(5.0), 1e-6);
  EXPECT_FLOAT_EQ(second.scale.high, second.values[5]);
  EXPECT_THAT(values_of(recording, 2, 0, KeyColour::kScore).values, ElementsAre(-1, -1)) << "-‖k‖";
}

TEST(KeyValues, ARunThatRanksNothingIsScoredByKeyDiff) {
  const FakeRecording recording = three_blocks();
  EXPECT_EQ(values_of(recording, 0, 1, KeyColour::kScore).values,
            values_of(recording, 1, 1, KeyColour::kScore).values);
  EXPECT_THAT(values_of(recording, 0, 1, KeyColour::kScore).scale.long_name, HasSubstr("nothing is evicted"));
}

TEST(KeyValues, MarginsAreOfWhatWasEvictedByThen) {
  const FakeRecording recording = three_blocks();
  recording::HeadTrace trace = recording.trace(1, 0, 0);
  trace.evicted_margin = {0.5F, 0.25F, kNone, kNone, kNone, kNone};
  const auto margins = [&](std::int64_t block) {
    const std::int64_t n_seen = 2 * (block + 1);
    return key_values(recording, *recording.info(), {1, 0, 0, block, n_seen}, KeyColour::kMargin,
                      recording.keys(1, 0, 0, 0, n_seen), trace);
  };
  const auto none = NanSensitiveFloatEq(kNone);
  EXPECT_THAT(margins(1).values, ElementsAre(none, 0.25F, none, none));
  EXPECT_THAT(margins(2).values, ElementsAre(0.5F, 0.25F, none, none, none, none));
  EXPECT_EQ(margins(2).scale.low, 0.25F);
  EXPECT_EQ(margins(2).scale.high, 0.5F);
}

TEST(KeyValues, PositionsAttentionAndClassesAreOfEveryTokenSeen) {
  const FakeRecording recording = three_blocks();
  EXPECT_THAT(values_of(recording, 1, 1, KeyColour::kPosition).values, ElementsAre(0, 1, 2, 3));
  const auto attention = values_of(recording, 1, 1, KeyColour::kAttention);
  const auto trace = recording.trace(1, 0, 0);
  for (std::size_t i = 0; i < attention.values.size(); ++i)
    EXPECT_FLOAT_EQ(attention.values[i], static_cast<float>(trace.attention_received[i]));
  EXPECT_TRUE(attention.scale.logarithmic);
  EXPECT_GT(attention.scale.low, 0);
  const auto classes = values_of(recording, 1, 1, KeyColour::kTokenClass);
  EXPECT_EQ(classes.scale.categories.size(), 6U);
  EXPECT_THAT(classes.values, testing::Each(0)) << "the prompt is letters";
}

TEST(KeyValues, WhatARecordingDoesNotHoldIsRefusedWithItsReason) {
  FakeRecording recording = three_blocks();
  const auto& info = *recording.info();
  EXPECT_THAT(colour_refusal(info, 3, KeyColour::kScore), HasSubstr("attention weights"));
  EXPECT_THROW(values_of(recording, 3, 1, KeyColour::kScore), UsageError);
  EXPECT_THAT(colour_refusal(info, 0, KeyColour::kMargin), HasSubstr("evicts nothing"));
  EXPECT_EQ(colour_refusal(info, 1, KeyColour::kMargin), "");
  EXPECT_EQ(colour_refusal(info, 1, KeyColour::kAttention), "");
  recording.edit_info().runs[1].plan.replayed = true;
  EXPECT_THAT(colour_refusal(info, 1, KeyColour::kAttention), HasSubstr("nothing attended"));
  recording.edit_info().runs[1].plan.cache_positions = true;
  EXPECT_THAT(colour_refusal(info, 1, KeyColour::kScore), HasSubstr("place in the cache"));
}

}  // namespace
}  // namespace keyscope::figures

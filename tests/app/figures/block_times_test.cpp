#include "app/figures/block_times.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Two runs of four blocks of eight tokens.
FakeRecording timed() {
  FakeRecording recording(1, 2, 1, 4, 32, 8);
  recording.add_run("keydiff", 8);
  recording.add_run("none", 0);
  recording.edit_info().runs[0].block_ms = {4, 5, 5, 5};
  recording.edit_info().runs[1].block_ms = {4, 6, 8, 10};
  return recording;
}

TEST(BlockTimes, EveryRunIsALineOverThePrompt) {
  const FakeRecording recording = timed();
  EXPECT_TRUE(has_block_times(*recording.info()));
  const Figure figure = block_times_figure(recording, {{0, 1}});
  ASSERT_EQ(figure.panels.size(), 1U);
  const auto& lines = figure.panels.front().lines;
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].label, "keydiff, N = 8");
  EXPECT_EQ(lines[1].label, "none");
  EXPECT_THAT(lines[1].x, ElementsAre(0, 8, 16, 24));
  EXPECT_THAT(lines[1].y, ElementsAre(4, 6, 8, 10));
  EXPECT_THAT(figure.view.runs, ElementsAre("keydiff", "none"));
}

TEST(BlockTimes, TokensGeneratedAfterwardsAreLeftOut) {
  FakeRecording recording = timed();
  recording::RunInfo& run = recording.edit_info().runs[0];
  run.block_start.push_back(32);
  run.block_ms.push_back(1);
  run.blocks_done = 5;
  EXPECT_EQ(block_times_figure(recording, {{0}}).panels.front().lines.front().x.size(), 4U);
}

TEST(BlockTimes, WhatIsNotThereIsSaid) {
  FakeRecording recording = timed();
  EXPECT_THROW(block_times_figure(recording, {{2}}), UsageError);
  for (auto& run : recording.edit_info().runs) run.block_ms.assign(4, kNaN);
  EXPECT_FALSE(has_block_times(*recording.info()));
  try {
    block_times_figure(recording, {{0, 1}});
    FAIL() << "no block has a time";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--schedule block"));
  }
}

}  // namespace
}  // namespace keyscope::figures

// All runs together: a block of each in turn, stopped, stepped and slowed down as one.

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/model/transformer.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class Together : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.prompt_ids = test::random_ids(40, 50);
    options_.policies = test::policies({"none", "keydiff", "sink"});
    options_.budget = 12;
    options_.block_size = 16;  // three blocks
    options_.schedule = Schedule::kTogether;
    options_.generate = 3;
    options_.ignore_eos = true;
  }

  // Which run's which block was done, in order.
  std::vector<std::pair<int, std::int64_t>> blocks() {
    std::vector<std::pair<int, std::int64_t>> done;
    control_.on_progress = [&](const CaptureProgress& progress) {
      done.emplace_back(progress.run_index, progress.block);
    };
    const auto memory = recording::MemoryRecording::create();
    std::array<recording::RecordSink*, 1> sinks{memory.get()};
    run_capture(test::tiny_model(), options_, sinks, control_);
    return done;
  }

  CaptureControl control_;
  CaptureOptions options_;
};

TEST_F(Together, EveryRunTakesABlockInTurn) {
  EXPECT_THAT(blocks(), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1), Pair(0, 2), Pair(1, 2), Pair(2, 2),
                                    Pair(0, 3), Pair(1, 3), Pair(2, 3), Pair(0, 4), Pair(1, 4), Pair(2, 4),
                                    Pair(0, 5), Pair(1, 5), Pair(2, 5)));
}

// Cancels where it would pause, so that nothing has to be waited for.
TEST_F(Together, StopsWhenEveryRunHasReadAToken) {
  for (const auto& [position, n_turns] : {std::pair{0, 1}, {15, 1}, {16, 2}, {39, 3}, {40, 4}, {41, 5}}) {
    CaptureControl control;
    std::vector<std::int64_t> done(3, 0);
    bool stopped = false;
    control.on_progress = [&](const CaptureProgress& progress) { ++done[progress.run_index]; };
    control.on_pause = [&] {
      stopped = true;
      control.cancel();
    };
    control.pause_after(position);
    try {
      run_capture(test::tiny_model(), options_, {}, control);
    } catch (const Cancelled&) {
    }
    EXPECT_EQ(stopped, n_turns < 5) << position;  // after the last token nothing is left to wait for
    EXPECT_THAT(done, ElementsAre(n_turns, n_turns, n_turns)) << position;
  }
}

TEST_F(Together, ARateHoldsTurnsBackAndNotBlocks) {
  options_.generate = 0;
  control_.set_rate(50);
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(blocks().size(), 9U);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  EXPECT_GE(took.count(), 2 * 0.02);  // between three turns
}

TEST_F(Together, WhatWasWrittenBeforeItWasCancelledIsKeptOfEveryRun) {
  const auto whole = test::run_in_memory(test::tiny_model(), options_);
  const test::ScratchFolder scratch;
  const auto path = scratch.path() / "cut.h5";
  {
    const auto writer = recording::make_recording_writer(path, false);
    std::array<recording::RecordSink*, 1> sinks{writer.get()};
    control_.on_progress = [&](const CaptureProgress& progress) {
      if (progress.run_index == 1 && progress.block == 2) control_.cancel();
    };
    EXPECT_THROW(run_capture(test::tiny_model(), options_, sinks, control_), Cancelled);
  }
  const auto cut = recording::open_recording(path);
  const auto info = cut->info();
  EXPECT_FALSE(info->complete);
  const std::vector<std::int64_t> n_blocks{2, 2, 1};
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(info->runs[run].blocks_done, n_blocks[run]) << run;
    const std::int64_t n = info->runs[run].n_tokens;
    EXPECT_EQ(n, 16 * n_blocks[run]);
    EXPECT_EQ(cut->keys(run, 1, 0), whole.recording->keys(run, 1, 0, 0, n));
    auto evicted = whole.recording->trace(run, 1, 0).evicted_at;
    evicted.resize(n);
    for (auto& at : evicted)
      if (at >= n_blocks[run]) at = -1;
    EXPECT_EQ(cut->trace(run, 1, 0).evicted_at, evicted);
  }
}

TEST_F(Together, NeedsRoomForAllCachesAtOnce) {
  const Model& model = test::tiny_model();
  options_.policies = test::policies({"none", "none"});
  const auto fits = [&](Schedule schedule, std::int64_t available) {
    options_.schedule = schedule;
    try {
      check_memory(model.config(), plan_capture(model, options_), 4, model.transformer().arithmetic(),
                   available);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("run none-2: its KV cache needs"));
      EXPECT_THAT(error.what(), HasSubstr("or --schedule block"));
      return false;
    }
    return true;
  };
  options_.schedule = Schedule::kBlock;
  const auto plan = plan_capture(model, options_);
  const MemoryNeed one = memory_need(model.config(), plan, plan.runs[0], 4, model.transformer().arithmetic());
  EXPECT_TRUE(fits(Schedule::kBlock, one.cache_bytes + one.block_bytes));
  EXPECT_FALSE(fits(Schedule::kTogether, one.cache_bytes + one.block_bytes));
  EXPECT_TRUE(fits(Schedule::kTogether, 2 * one.cache_bytes + one.block_bytes));
}

}  // namespace
}  // namespace keyscope::capture

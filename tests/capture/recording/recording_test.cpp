#include "capture/recording/recording.hpp"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/records.hpp"
#include "tests/capture/recording/hostile_file.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

namespace {

using Positions = std::vector<std::int32_t>;

// Six tokens in blocks {0,1} {2,3} {4,5}: token 1 went at the end of block 0, token 0 and 3 at that of
// block 1.
const Positions kEvictions = {1, 0, -1, 1, -1, -1};

RunInfo three_blocks() {
  RunInfo run;
  run.block_start = {0, 2, 4};
  run.blocks_done = 3;
  run.n_tokens = 6;
  return run;
}

TEST(RetainedPositions, AreThoseSeenAndNotYetEvicted) {
  EXPECT_EQ(retained_positions(kEvictions, 2, 0), (Positions{0}));
  EXPECT_EQ(retained_positions(kEvictions, 4, 1), (Positions{2}));
  EXPECT_EQ(retained_positions(kEvictions, 6, 2), (Positions{2, 4, 5}));
}

TEST(RetainedPositions, BeforeTheFirstBlockAreNone) {
  EXPECT_EQ(retained_positions(kEvictions, 0, -1), Positions{});
  EXPECT_EQ(retained_positions({}, 10, 3), Positions{});
}

TEST(RetainedPositions, DoNotGoBeyondTheRowsThereAre) {
  EXPECT_EQ(retained_positions(kEvictions, 100, 2), (Positions{2, 4, 5}));
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

std::string recorded_into(const test::ScratchFolder& folder) {
  const auto path = folder.file("recording.h5");
  auto writer = make_recording_writer(path, false);
  SyntheticCapture().send(*writer);
  writer->end(true);
  return path.string();
}

TEST(OpenProgress, CountsTheLayersOfAllRuns) {
  const test::ScratchFolder folder;
  std::vector<std::pair<std::int64_t, std::int64_t>> reports;
  open_recording(recorded_into(folder), [&](std::int64_t n_checked, std::int64_t n_layers) {
    reports.emplace_back(n_checked, n_layers);
  });
  // Two layers of each of two runs.
  EXPECT_EQ(reports, (decltype(reports){{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}}));
}

TEST(OpenProgress, WhatItThrowsEndsTheOpeningAndTheFileOpensAgain) {
  const test::ScratchFolder folder;
  const std::string path = recorded_into(folder);
  std::int64_t most = 0;
  const auto stop = [&](std::int64_t n_checked, std::int64_t) {
    most = n_checked;
    if (n_checked == 2) throw Cancelled("enough");
  };
  EXPECT_THROW(open_recording(path, stop), Cancelled);
  EXPECT_EQ(most, 2);
  EXPECT_TRUE(open_recording(path)->info()->complete);
}

}  // namespace

// Recordings of some heads: rows lie one after another, and go by the model's indices all the same.

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RecordedHeads, AreAllUnlessSomeAreChosen) {
  const RecordedHeads all;
  EXPECT_TRUE(all.has(7));
  EXPECT_EQ(all.place(7), 7);
  EXPECT_EQ(all.query_place(15, 2), 15);
  EXPECT_EQ(all.count(8), 8);
  EXPECT_THAT(all.list(3), ElementsAre(0, 1, 2));
}

TEST(RecordedHeads, LieInAscendingOrder) {
  const RecordedHeads some{{1, 4, 5}};
  EXPECT_EQ(some.place(1), 0);
  EXPECT_EQ(some.place(5), 2);
  EXPECT_EQ(some.place(0), -1);
  EXPECT_EQ(some.place(6), -1);
  EXPECT_EQ(some.query_place(9, 2), 1 * 2 + 1);  // KV head 4 is the second
  EXPECT_EQ(some.query_place(6, 2), -1);         // KV head 3
  EXPECT_EQ(some.first(), 1);
  EXPECT_EQ(some.refusal(3), "KV head 3 was not recorded; recorded are 1, 4, 5");
}

SyntheticOptions three_heads(std::vector<int> recorded = {}) {
  SyntheticOptions options;
  options.n_heads = 6;
  options.n_kv_heads = 3;
  options.heads = std::move(recorded);
  return options;
}

std::shared_ptr<const Recording> in_memory(const SyntheticOptions& options) {
  auto memory = MemoryRecording::create();
  SyntheticCapture(options).send(*memory);
  memory->end(true);
  return memory;
}

class SomeHeads : public ::testing::TestWithParam<bool> {
 protected:
  // From memory, or from a file.
  std::shared_ptr<const Recording> record(const SyntheticOptions& options) const {
    if (!GetParam()) return in_memory(options);
    const auto path = folder_.path() / "a.h5";
    auto writer = make_recording_writer(path, false);
    SyntheticCapture(options).send(*writer);
    writer->end(true);
    return open_recording(path.string());
  }

  test::ScratchFolder folder_;
};

// The same capture with all heads is what there is to find.
TEST_P(SomeHeads, AreFoundByTheirIndex) {
  const auto all = in_memory(three_heads()), some = record(three_heads({0, 2}));
  EXPECT_THAT(some->info()->heads.kv_heads, ElementsAre(0, 2));
  for (int run = 0; run < 2; ++run) {
    for (const int kv_head : {0, 2}) {
      EXPECT_EQ(some->keys(run, 2, kv_head), all->keys(run, 2, kv_head));
      EXPECT_EQ(some->values(run, 2, kv_head, 3, 20), all->values(run, 2, kv_head, 3, 20));
      for (const int query_head : {2 * kv_head, 2 * kv_head + 1}) {
        EXPECT_EQ(some->queries(run, 2, query_head), all->queries(run, 2, query_head));
        EXPECT_EQ(some->attention(run, 2, query_head, 5, 30), all->attention(run, 2, query_head, 5, 30));
      }
    }
  }
}

TEST_P(SomeHeads, StatisticsAreThoseOfAllHeads) {
  const auto all = in_memory(three_heads()), some = record(three_heads({1}));
  for (int kv_head = 0; kv_head < 3; ++kv_head) {
    const HeadTrace expected = all->trace(1, 0, kv_head), found = some->trace(1, 0, kv_head);
    EXPECT_EQ(found.evicted_at, expected.evicted_at);
    EXPECT_EQ(found.attention_received, expected.attention_received);
    EXPECT_EQ(found.attention_queries, expected.attention_queries);
    EXPECT_EQ(found.attention_last, expected.attention_last);
  }
}

TEST_P(SomeHeads, OthersAreRefusedByName) {
  const auto some = record(three_heads({0, 2}));
  const auto refusal = ThrowsMessage<FileError>(HasSubstr("KV head 1 was not recorded; recorded are 0, 2"));
  EXPECT_THAT([&] { some->keys(0, 0, 1); }, refusal);
  EXPECT_THAT([&] { some->values(0, 0, 1); }, refusal);
  EXPECT_THAT([&] { some->queries(0, 0, 3); }, refusal);
  EXPECT_THAT([&] { some->attention(0, 0, 2); }, refusal);
  EXPECT_THAT([&] { some->keys(0, 0, 3); }, ThrowsMessage<FileError>(HasSubstr("there is no KV head 3")));
}

INSTANTIATE_TEST_SUITE_P(Sinks, SomeHeads, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "File" : "Memory"; });

TEST(SomeHeadsOfAFile, SurviveCompression) {
  const test::ScratchFolder folder;
  SyntheticOptions options = three_heads({0, 2});
  options.compress = true;
  auto writer = make_recording_writer(folder.path() / "a.h5", false);
  SyntheticCapture(options).send(*writer);
  writer->end(true);
  expect_same(*in_memory(options), *open_recording((folder.path() / "a.h5").string()));
}

TEST(SomeHeadsOfAPlan, MustAscendBelowTheModels) {
  for (const std::vector<int>& heads : {std::vector<int>{2, 0}, {0, 0}, {0, 3}, {-1}})
    EXPECT_THAT([&] { in_memory(three_heads(heads)); }, ThrowsMessage<InvalidInput>(HasSubstr("KV heads [")));
}

// What a file says of its heads is not believed.
class HostileHeads : public HostileFile {
 protected:
  void say_heads(const std::string& run, const std::vector<std::int32_t>& heads) const {
    change([&](hid_t file) {
      put(file, "/entry/runs/" + run + "/layer_00/kv_heads", H5T_STD_I32LE, {heads.size()}, heads.data());
    });
  }
};

TEST_F(HostileHeads, AllHeadsMayBeNamed) {
  say_heads("none", {0, 1});
  say_heads("keydiff", {0, 1});
  EXPECT_EQ(message(), "");
}

TEST_F(HostileHeads, MustAscendWithoutRepeats) {
  say_heads("none", {1, 0});
  expect_refused("/entry/runs/none/layer_00/kv_heads",
                 "found [1, 0]; expected ascending indices of 2 KV heads");
  say_heads("none", {1, 1});
  expect_refused("/entry/runs/none/layer_00/kv_heads", "found [1, 1]");
}

TEST_F(HostileHeads, MustBeTheModels) {
  say_heads("none", {0, 2});
  expect_refused("/entry/runs/none/layer_00/kv_heads", "found [0, 2]");
  say_heads("none", {-1});
  expect_refused("/entry/runs/none/layer_00/kv_heads", "found [-1]");
}

TEST_F(HostileHeads, MustBeAsManyAsThereAreRows) {
  say_heads("none", {1});
  expect_refused("/entry/runs/none/layer_00/keys", "found float32 (2, 35, 4); expected float32 (1, 35, 4)");
  say_heads("none", {});
  expect_refused("/entry/runs/none/layer_00/kv_heads", "found 0 heads; expected 1 to 2");
  say_heads("none", {0, 1, 1});
  expect_refused("/entry/runs/none/layer_00/kv_heads", "found 3 heads; expected 1 to 2");
}

TEST_F(HostileHeads, MustBeTheSameInEveryRun) {
  say_heads("keydiff", {1});
  expect_refused("/entry/runs/keydiff/layer_00", "kv_heads: found heads 1; expected 0, 1");
}

TEST_F(HostileHeads, MustBeIntegers) {
  change([](hid_t file) {
    const float heads[] = {0, 1};
    put(file, "/entry/runs/none/layer_00/kv_heads", H5T_IEEE_F32LE, {2}, heads);
  });
  expect_refused("/entry/runs/none/layer_00/kv_heads", "found float32");
}

}  // namespace

}  // namespace keyscope::recording

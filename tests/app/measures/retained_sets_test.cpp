#include "app/measures/retained_sets.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "app/measures/head_measures.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::measures {

namespace {

// Six tokens in blocks of three, two layers of two heads. After block 1 the first run retains 0 1 2 in every
// head; the second 0 1 5 in layer 0, in layer 1 nothing in head 0 and 0 1 2 in head 1.
figures::FakeRecording two_runs() {
  figures::FakeRecording recording(2, 2, 2, 1, 6, 3);
  recording.add_run("sink", 3);
  recording.add_run("keydiff", 3);
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      recording.evicted_at(0, layer, head) = {-1, -1, -1, 1, 1, 1};
      recording.evicted_at(1, layer, head) = {-1, -1, 1, 1, 1, -1};
    }
  recording.evicted_at(1, 1, 0) = {1, 1, 1, 1, 1, 1};
  recording.evicted_at(1, 1, 1) = {-1, -1, -1, 1, 1, 1};
  return recording;
}

TEST(RetainedOverlap, IsTheMeanOverHeads) {
  const RetainedOverlap overlap = measure_overlap(two_runs(), {0, 1});
  EXPECT_DOUBLE_EQ(overlap.per_layer[0](0, 1), 0.5) << "two of four, in both heads";
  EXPECT_DOUBLE_EQ(overlap.per_layer[1](0, 1), 0.5) << "none of three in one head, all in the other";
  EXPECT_DOUBLE_EQ(overlap.mean(0, 1), (0.5 + 0.5 + 0 + 1) / 4);
  EXPECT_DOUBLE_EQ(overlap.mean(1, 0), overlap.mean(0, 1));
  EXPECT_DOUBLE_EQ(overlap.mean(0, 0), 1);
  EXPECT_DOUBLE_EQ(overlap.per_layer[1](1, 1), 1) << "two empty sets have no overlap and do not count";
}

TEST(RetainedOverlap, TakesTheMomentThatIsAskedFor) {
  const RetainedOverlap overlap = measure_overlap(two_runs(), {0, 1}, 0);
  EXPECT_DOUBLE_EQ(overlap.mean(0, 1), 1) << "nothing is evicted yet";
  EXPECT_THROW(measure_overlap(two_runs(), {0, 1}, 2), InvalidInput);
}

TEST(RetainedOverlap, WithoutAnySetThereIsNone) {
  figures::FakeRecording recording = two_runs();
  for (const int run : {0, 1})
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head) recording.evicted_at(run, layer, head).assign(6, 1);
  EXPECT_TRUE(std::isnan(measure_overlap(recording, {0, 1}).mean(0, 1)));
}

// Keys (1, 0) three times and (0, 1), (-1, 0); two of them are retained: the first and the second.
figures::FakeRecording five_keys() {
  figures::FakeRecording recording(1, 1, 1, 2, 5, 5);
  recording.add_run("keydiff", 2);
  recording.keys_of(0, 0, 0) << 1, 0, 1, 0, 1, 0, 0, 1, -1, 0;
  recording.evicted_at(0, 0, 0) = {-1, -1, 0, 0, 0};
  return recording;
}

TEST(SetObjective, OfFewKeysTheBestSetIsFound) {
  const auto heads = measure_set_objectives(five_keys(), 0);
  ASSERT_EQ(heads.size(), 1U);
  EXPECT_EQ(heads[0].n_retained, 2);
  EXPECT_DOUBLE_EQ(heads[0].retained, 4) << "two equal keys: four cosines of one";
  EXPECT_DOUBLE_EQ(heads[0].best, 0) << "a key and its opposite";
  EXPECT_TRUE(heads[0].optimal);
  EXPECT_DOUBLE_EQ(heads[0].gap(), 1) << "of four cosines";
}

TEST(SetObjective, TheRunsObjectiveIsThatOfItsMeasures) {
  figures::FakeRecording recording(3, 2, 2, 4, 64, 16);
  recording.add_run("keydiff", 20);
  recording.fill(9);
  const auto heads = measure_set_objectives(recording, 0, {1});
  ASSERT_EQ(heads.size(), 6U);
  for (const SetObjective& head : heads) {
    EXPECT_EQ(head.retained,
              measure_head(recording, 0, head.layer, head.kv_head, Parts::all(), 1).cosine_objective);
    EXPECT_LE(head.best, head.at_once);
  }
}

TEST(SetObjective, OfManyHeadsSomeAreMeasured) {
  figures::FakeRecording recording(4, 2, 2, 2, 8, 4);
  recording.add_run("keydiff", 3);
  recording.fill(1);
  const auto heads = measure_set_objectives(recording, 0, {-1, 4});
  ASSERT_EQ(heads.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(heads[i].layer, i) << "evenly spaced";
    EXPECT_EQ(heads[i].kv_head, 0);
  }
  EXPECT_THROW(measure_set_objectives(recording, 0, {2}), InvalidInput);
}

TEST(SetObjective, HeadsThatRetainedNothingAreLeftOut) {
  figures::FakeRecording recording = five_keys();
  recording.evicted_at(0, 0, 0).assign(5, 0);
  EXPECT_TRUE(measure_set_objectives(recording, 0).empty());
}

}  // namespace

}  // namespace keyscope::measures

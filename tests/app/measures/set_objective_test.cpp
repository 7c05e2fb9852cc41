#include "app/measures/retained_sets.hpp"

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::measures {
namespace {

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
  MeasureOptions options;
  options.at_block = 1;
  for (const SetObjective& head : heads) {
    EXPECT_EQ(head.retained, measure_head(recording, 0, head.layer, head.kv_head, options).cosine_objective);
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
    EXPECT_EQ(heads[static_cast<std::size_t>(i)].layer, i) << "evenly spaced";
    EXPECT_EQ(heads[static_cast<std::size_t>(i)].kv_head, 0);
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

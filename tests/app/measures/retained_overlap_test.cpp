#include "app/measures/retained_overlap.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/figures/fake_recording.hpp"

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

}  // namespace
}  // namespace keyscope::measures

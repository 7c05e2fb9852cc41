#include "app/measures/head_bounds.hpp"

#include <gtest/gtest.h>

#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::measures {
namespace {

figures::FakeRecording one_run() {
  figures::FakeRecording recording(2, 4, 2, 4, 32, 8);
  recording.add_run("none", 0);
  recording.fill(6);
  return recording;
}

TEST(HeadBounds, TheTheoremIsThatOfTheHeadsMeasures) {
  const figures::FakeRecording recording = one_run();
  const HeadBounds bounds = measure_bounds(recording, 0, 1, 1);
  const HeadMeasures measures = measure_head(recording, 0, 1, 1);
  EXPECT_EQ(bounds.theorem.pairs, measures.bound_pairs);
  EXPECT_EQ(bounds.theorem.pairs_causal, measures.bound_pairs_causal);
  EXPECT_EQ(bounds.theorem.violations, measures.bound_violations);
  EXPECT_EQ(bounds.theorem.min_slack, measures.bound_min_slack);
  EXPECT_EQ(bounds.lemma.pairs, 2 * 32 * 31 / 2 + 2 * 31)
      << "every visible key of two query heads; query 0 sees one";
}

TEST(HeadBounds, EveryRecordedHeadComesInOrder) {
  figures::FakeRecording recording = one_run();
  recording.edit_info().heads.kv_heads = {1};
  const auto heads = measure_all_bounds(recording, 0);
  ASSERT_EQ(heads.size(), 2U);
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(heads[static_cast<std::size_t>(layer)].layer, layer);
    EXPECT_EQ(heads[static_cast<std::size_t>(layer)].kv_head, 1);
    EXPECT_EQ(heads[static_cast<std::size_t>(layer)].theorem.min_slack,
              measure_bounds(recording, 0, layer, 1).theorem.min_slack);
  }
}

}  // namespace
}  // namespace keyscope::measures

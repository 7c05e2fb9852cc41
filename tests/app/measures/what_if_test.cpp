// What a policy would keep at a budget, against what a replay of the same file writes.

#include "app/measures/what_if.hpp"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/measures/head_measures.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::measures {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// 50 tokens of which attention is recorded as well.
class WhatIfTest : public ::testing::Test {
 protected:
  void SetUp() override {
    capture::CaptureOptions options = test::full_cache_options();
    options.record_attention = options.record_value_norms = true;
    source_ = test::capture_to(folder_.file("none.h5"), options);
    base_ = recording::open_recording(source_);
  }

  test::ScratchFolder folder_;
  std::string source_;
  std::shared_ptr<const recording::Recording> base_;
};

TEST_F(WhatIfTest, IsWhatAReplayWrites) {
  const std::vector<std::string> policies{
      "keydiff", "keydiff:recent=0.2", "sink",      "snapkv", "h2o",
      "cur",     "expected",           "compactor", "rkv",    "keydiff:critical=shift"};
  const auto replayed = test::replay_to(folder_.file("replayed.h5"), source_, test::replay_options(policies));
  for (std::size_t i = 0; i < policies.size(); ++i) {
    ASSERT_THAT(what_if_refusal(*base_->info(), policies[i]), IsEmpty());
    const WhatIfRecording asked(base_, {policies[i], 12.0 / 50});
    const auto& found = asked.info()->runs.back();
    const auto& expected = replayed->info()->runs[i + 1];
    EXPECT_EQ(found.plan.budget, 12);
    EXPECT_EQ(found.plan.parameters, expected.plan.parameters);
    EXPECT_EQ(found.plan.oracle, expected.plan.oracle);
    EXPECT_EQ(found.block_start, expected.block_start);
    EXPECT_EQ(found.block_ms.size(), expected.block_ms.size());
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head) {
        const auto trace = asked.trace(asked.run(), layer, head);
        EXPECT_EQ(trace.evicted_at, replayed->trace(static_cast<int>(i) + 1, layer, head).evicted_at)
            << policies[i] << " layer " << layer;
        EXPECT_EQ(trace.value_norms, base_->trace(0, layer, head).value_norms);
        EXPECT_EQ(asked.keys(asked.run(), layer, head, 0, 50), base_->keys(0, layer, head, 0, 50));
      }
  }
}

TEST_F(WhatIfTest, OtherRunsAreTheFiles) {
  const WhatIfRecording asked(base_, {"keydiff", 0.5});
  EXPECT_EQ(asked.run(), 1);
  EXPECT_EQ(asked.trace(0, 1, 1).evicted_at, base_->trace(0, 1, 1).evicted_at);
  EXPECT_EQ(asked.attention(0, 1, 1, 3, 5), base_->attention(0, 1, 1, 3, 5));
  EXPECT_FALSE(asked.info()->runs[0].plan.replayed);
}

TEST_F(WhatIfTest, SaysWhyItCannotBeAsked) {
  recording::RecordingInfo info = *base_->info();
  EXPECT_THAT(what_if_refusal(info, "keydif"), HasSubstr("keydif"));
  info.attention = false;
  EXPECT_THAT(what_if_refusal(info, "snapkv:window=7"), HasSubstr("attention weights were not recorded"));
  EXPECT_THAT(what_if_refusal(info, "snapkv"), IsEmpty());
  info.window_sums = false;
  EXPECT_THAT(what_if_refusal(info, "snapkv"), HasSubstr("nor their sums"));
  EXPECT_THAT(what_if_refusal(info, "keydiff"), IsEmpty());
  info.values = false;
  EXPECT_THAT(what_if_refusal(info, "cur"), HasSubstr("values, which were not recorded"));
  EXPECT_THAT(what_if_refusal(info, "rkv"), IsEmpty());
  info.value_norms = false;
  EXPECT_THAT(what_if_refusal(info, "rkv:critical=on"), HasSubstr("--record keys,value-norms"));
  info.queries = false;
  EXPECT_THAT(what_if_refusal(info, "rkv"), HasSubstr("queries, and none were recorded"));
  info.runs[0].plan.policy = "sink";
  EXPECT_THAT(what_if_refusal(info, "keydiff"), HasSubstr("kept everything"));
}

// At every budget what the measures of a replay at that budget are.
TEST_F(WhatIfTest, TheCurveIsOfReplaysMeasures) {
  const BudgetCurve curve = budget_curve(base_, "keydiff", 1, 1);
  ASSERT_GE(curve.points.size(), 10u);
  for (const BudgetPoint& point : curve.points) {
    if (point.share != 0.2 && point.share != 0.6) continue;
    auto options = test::replay_options({"keydiff"});
    options.budget = std::llround(point.share * 50);
    const auto replayed = test::replay_to(folder_.file(fmt::format("{}.h5", point.share)), source_, options);
    const auto expected =
        measure_head(*replayed, 1, 1, 1, {Part::kRetained, Part::kVolume, Part::kPairs, Part::kMass});
    EXPECT_EQ(point.attention_kept, expected.attention_mass_kept.value());
    EXPECT_EQ(point.log_volume, expected.log_volume_nats.value());
  }
  EXPECT_EQ(curve.points.back().share, 1);
  EXPECT_NEAR(curve.points.back().attention_kept, 1, 1e-6);
}

}  // namespace
}  // namespace keyscope::measures

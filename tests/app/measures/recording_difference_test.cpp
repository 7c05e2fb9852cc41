#include "app/measures/recording_difference.hpp"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/measures/fake_recording.hpp"

namespace keyscope::measures {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

RecordingDifference compare(const FakeRecording& a, const FakeRecording& b) {
  const std::atomic<bool> cancelled = false;
  return compare_recordings(
      a, b, {}, [](std::int64_t, std::int64_t) {}, cancelled);
}

// The entry of one dataset of the run `keydiff`.
DatasetDifference entry(const RecordingDifference& difference, const std::string& dataset) {
  const auto found = std::ranges::find_if(difference.datasets, [&](const auto& each) {
    return each.run == "keydiff" && each.dataset == dataset;
  });
  EXPECT_NE(found, difference.datasets.end()) << dataset;
  return found == difference.datasets.end() ? DatasetDifference() : *found;
}

TEST(CompareRecordings, FindsNothingBetweenARecordingAndItself) {
  const FakeRecording recording;
  const auto difference = compare(recording, recording);
  EXPECT_TRUE(difference.agrees());
  EXPECT_EQ(entry(difference, "keys").largest_difference, 0);
  EXPECT_GT(entry(difference, "keys").largest_value, 0);
}

TEST(CompareRecordings, JudgesValuesByTheLargest) {
  const FakeRecording a;
  FakeRecording b;
  auto& keys = b.heads[1][0].keys;
  const float largest = keys.cwiseAbs().maxCoeff();
  keys(3, 1) += 5e-6F * largest;
  EXPECT_TRUE(compare(a, b).agrees());
  keys(3, 1) += 1e-3F * largest;
  const auto difference = compare(a, b);
  EXPECT_FALSE(difference.agrees());
  EXPECT_FALSE(entry(difference, "keys").agrees());
  EXPECT_NEAR(entry(difference, "keys").largest_difference, 1e-3 * static_cast<double>(largest),
              2e-5 * static_cast<double>(largest));
  EXPECT_TRUE(entry(difference, "queries").agrees());
}

TEST(CompareRecordings, ANumberAndNoneDiffer) {
  const FakeRecording a;
  FakeRecording b;
  b.heads[1][1].keys(0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(entry(compare(a, b), "keys").n_different, 1);
}

TEST(CompareRecordings, ForgivesCloseCallsOnly) {
  const FakeRecording a;
  FakeRecording b;
  auto& trace = b.heads[1][0].trace;
  trace.evicted_at[5] += 1;
  trace.evicted_margin[5] = 0.5F;
  FakeRecording close = b;
  close.heads[1][0].trace.evicted_margin[5] = 1e-6F;
  EXPECT_EQ(entry(compare(a, b), "evicted_at").n_close_calls, 0);
  EXPECT_EQ(entry(compare(a, close), "evicted_at").n_close_calls, 1);
  EXPECT_TRUE(entry(compare(a, close), "evicted_at").agrees());
}

TEST(CompareRecordings, SaysWhatOnlyOneHas) {
  const FakeRecording a;
  FakeRecording b;
  b.about.values = false;
  b.about.runs.pop_back();
  const auto difference = compare(a, b);
  EXPECT_THAT(difference.structure, Contains(HasSubstr("values are only in")));
  EXPECT_THAT(difference.structure, Contains(HasSubstr("run keydiff is only in")));
  EXPECT_FALSE(difference.agrees());
}

TEST(CompareRecordings, ComparesTheHeadsThatBothHave) {
  const FakeRecording a;
  FakeRecording b;
  b.about.heads.kv_heads = {1};
  b.heads[1][0].keys.setZero();  // not recorded, and not looked at
  const auto difference = compare(a, b);
  EXPECT_THAT(difference.structure, Contains(HasSubstr("rows of KV head 0 are only in")));
  EXPECT_TRUE(entry(difference, "keys").agrees());
  b.heads[1][1].keys.setZero();
  EXPECT_FALSE(entry(compare(a, b), "keys").agrees());
}

TEST(CompareRecordings, AllowsForRowsThatWereStoredRounded) {
  const FakeRecording a;
  FakeRecording b;
  auto& keys = b.heads[1][0].keys;
  keys(3, 1) += 0.003F * keys.cwiseAbs().maxCoeff();  // below 2⁻⁸
  EXPECT_FALSE(entry(compare(a, b), "keys").agrees());
  b.about.store = recording::StoreType::kFloat16;
  EXPECT_FALSE(entry(compare(a, b), "keys").agrees()) << "half precision is better than that";
  b.about.store = recording::StoreType::kBFloat16;
  EXPECT_TRUE(entry(compare(a, b), "keys").agrees());
  EXPECT_EQ(entry(compare(a, b), "keys").rounding, 0x1p-8);
  EXPECT_EQ(entry(compare(a, b), "attention_received").rounding, 0);
}

TEST(CompareRecordings, RefusesAnotherPromptOrModel) {
  const FakeRecording a;
  FakeRecording b = a, c = a;
  b.about.prompt.id[2] += 1;
  c.about.model.head_dim += 1;
  EXPECT_THROW(compare(a, b), UsageError);
  EXPECT_THROW(compare(a, c), UsageError);
}

}  // namespace
}  // namespace keyscope::measures

#include "app/measures/recording_measures.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "fake_recording.hpp"

namespace keyscope::measures {
namespace {

TEST(RecordingMeasures, AreInOrderWhateverTheThreads) {
  const FakeRecording recording;
  const std::atomic<bool> cancelled = false;
  std::atomic<int> n_calls = 0;
  const auto runs = measure_recording(
      recording, {}, {}, [&](auto, auto, const auto&) { ++n_calls; }, cancelled);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(n_calls, 4);
  for (int run = 0; run < 2; ++run)
    for (int head = 0; head < 2; ++head) {
      const auto& found = runs[static_cast<std::size_t>(run)].heads[static_cast<std::size_t>(head)];
      EXPECT_EQ(found.kv_head, head);
      EXPECT_EQ(found.spearman, measure_head(recording, run, 3, head).spearman);
    }
}

TEST(RecordingMeasures, OfTheRetainedSetAloneAreTheSameNumbers) {
  const FakeRecording recording;
  const auto all = measure_heads(recording, 1, 2), some = measure_heads(recording, 1, 2, true);
  ASSERT_EQ(some.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(some[i].retained, all[i].retained);
    EXPECT_EQ(some[i].log_volume_nats, all[i].log_volume_nats);
    EXPECT_EQ(some[i].mean_pairwise_cosine, all[i].mean_pairwise_cosine);
    EXPECT_EQ(some[i].attention_mass_kept, all[i].attention_mass_kept);
    EXPECT_TRUE(all[i].spearman && all[i].output_error);
    EXPECT_FALSE(some[i].spearman || some[i].output_error || some[i].sink_metric);
  }
}

TEST(RecordingMeasures, SelectsAndRefuses) {
  const FakeRecording recording;
  const std::atomic<bool> cancelled = false;
  const auto some =
      measure_recording(recording, {.runs = {1}, .layers = {3}, .kv_heads = {1}}, {}, {}, cancelled);
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].run, "keydiff");
  ASSERT_EQ(some[0].heads.size(), 1U);
  EXPECT_THROW(measure_recording(recording, {.runs = {2}, .layers = {}, .kv_heads = {}}, {}, {}, cancelled),
               UsageError);
  EXPECT_THROW(measure_recording(recording, {.runs = {}, .layers = {0}, .kv_heads = {}}, {}, {}, cancelled),
               UsageError);
}

TEST(RecordingMeasures, StopWhenCancelled) {
  const std::atomic<bool> cancelled = true;
  EXPECT_THROW(measure_recording(FakeRecording(), {}, {}, {}, cancelled), Cancelled);
}

TEST(MeasuresJson, WritesNullForWhatDoesNotExist) {
  FakeRecording recording;
  recording.about.values = recording.about.queries = false;
  for (auto& run : recording.about.runs) run.n_scored = 0;
  const std::atomic<bool> cancelled = false;
  const auto json = measures_json(recording.about, measure_recording(recording, {}, {}, {}, cancelled));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["n_prompt"], 40);
  const auto& run = json["runs"][1];
  EXPECT_EQ(run["run"], "keydiff");
  EXPECT_TRUE(run["kl_nats"].is_null());
  const auto& head = run["heads"][0];
  EXPECT_TRUE(head["retained"].is_array());
  EXPECT_TRUE(head["spearman"].is_number());
  for (const char* field :
       {"key_query_mean_cosine", "output_error", "attention_entropy_nats", "attention_gini",
        "attention_top_share", "pca_explained", "bound_pairs", "bound_pairs_causal", "bound_violations",
        "bound_min_slack", "bound_min_slack_exact"}) {
    ASSERT_TRUE(head.contains(field)) << field;
    EXPECT_TRUE(head[field].is_null()) << field;
  }
}

}  // namespace
}  // namespace keyscope::measures

#include "app/measures/recording_measures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/task_group.h>

#include "base/errors.hpp"
#include "tests/support/drawn_recording.hpp"

namespace keyscope::measures {

namespace {

TEST(RecordingMeasures, AreInOrderWhateverTheThreads) {
  const DrawnRecording recording;
  const std::atomic<bool> cancelled = false;
  std::atomic<int> n_calls = 0;
  const auto runs = measure_recording(
      recording, {}, Parts::all(), [&](auto, auto, const auto&) { ++n_calls; }, cancelled);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(n_calls, 2);
  for (int run = 0; run < 2; ++run)
    for (int head = 0; head < 2; ++head) {
      const auto& found = runs[run].heads[head];
      EXPECT_EQ(found.kv_head, head);
      EXPECT_EQ(found.spearman, measure_head(recording, run, 3, head).spearman);
    }
}

// A part gives the numbers that all together give, and no others.
TEST(RecordingMeasures, OfOnePartAreTheSameNumbers) {
  const DrawnRecording recording;
  const Moment moments[] = {{0, -1}, {1, 2}, {1, -1}};
  const auto json_of = [&](Parts parts) {
    nlohmann::ordered_json json;
    for (const auto& heads : measure_heads(recording, moments, parts)) {
      const auto run = measures_json(recording.about, {{"keydiff", {}, {}, heads, {}}});
      for (const auto& head : run["runs"][0]["heads"]) json.push_back(head);
    }
    return json;
  };
  const auto all = json_of(Parts::all());
  auto together = json_of({});
  for (int part = 0; part <= static_cast<int>(Part::kBounds); ++part) {
    const auto some = json_of({static_cast<Part>(part)});
    ASSERT_EQ(some.size(), all.size());
    for (std::size_t head = 0; head < all.size(); ++head)
      for (const auto& [name, value] : some[head].items()) {
        if (value.empty() || name == "layer" || name == "kv_head") continue;
        EXPECT_EQ(value, all[head][name]) << name;
        EXPECT_TRUE(together[head][name].empty()) << name << " comes from two parts";
        together[head][name] = value;
      }
  }
  EXPECT_EQ(together, all);
}

TEST(RecordingMeasures, EveryMeasureKnowsItsPart) {
  using M = HeadMeasures;
  const DrawnRecording recording;
  const auto all = measure_head(recording, 1, 3, 0);
  for (const HeadValue value :
       {&M::spearman, &M::spearman_total, &M::spearman_given_position, &M::kendall, &M::mean_key_cosine,
        &M::key_query_mean_cosine, &M::top_key_query_cosine, &M::log_volume_nats,
        &M::regularised_log_volume_nats, &M::participation_ratio, &M::effective_rank,
        &M::mean_pairwise_cosine, &M::cosine_objective, &M::attention_mass_kept, &M::output_error,
        &M::attention_gini, &M::sink_metric, &M::bound_min_slack, &M::bound_min_slack_exact}) {
    EXPECT_EQ(measure_head(recording, 1, 3, 0, {part_of(value)}).*value, all.*value);
    EXPECT_FALSE(measure_head(recording, 1, 3, 0, Parts::all() - Parts{part_of(value)}).*value);
  }
}

// Heads that nobody has measured must not be taken for heads without values.
TEST(RecordingMeasures, EndWithTheTasksThatAskedForThem) {
  oneapi::tbb::task_group group;
  group.run_and_wait([&] {
    group.cancel();
    const Moment moments[] = {{0}};
    EXPECT_THROW(measure_heads(DrawnRecording(), moments, Parts::all()), Cancelled);
  });
}

TEST(RecordingMeasures, SelectsAndRefuses) {
  const DrawnRecording recording;
  const std::atomic<bool> cancelled = false;
  const auto some = measure_recording(recording, {.runs = {1}, .layers = {3}, .kv_heads = {1}}, Parts::all(),
                                      {}, cancelled);
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].run, "keydiff");
  ASSERT_EQ(some[0].heads.size(), 1U);
  EXPECT_THROW(
      measure_recording(recording, {.runs = {2}, .layers = {}, .kv_heads = {}}, Parts::all(), {}, cancelled),
      UsageError);
  EXPECT_THROW(
      measure_recording(recording, {.runs = {}, .layers = {0}, .kv_heads = {}}, Parts::all(), {}, cancelled),
      UsageError);
}

TEST(RecordingMeasures, StopWhenCancelled) {
  const std::atomic<bool> cancelled = true;
  EXPECT_THROW(measure_recording(DrawnRecording(), {}, Parts::all(), {}, cancelled), Cancelled);
}

TEST(MeasuresJson, WritesNullForWhatDoesNotExist) {
  DrawnRecording recording;
  recording.about.values = recording.about.queries = false;
  for (auto& run : recording.about.runs) run.n_scored = 0;
  const std::atomic<bool> cancelled = false;
  const auto json =
      measures_json(recording.about, measure_recording(recording, {}, Parts::all(), {}, cancelled));
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

using ::testing::Contains;
using ::testing::HasSubstr;

RecordingDifference compare(const DrawnRecording& a, const DrawnRecording& b) {
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
  const DrawnRecording recording;
  const auto difference = compare(recording, recording);
  EXPECT_TRUE(difference.agrees());
  EXPECT_EQ(entry(difference, "keys").largest_difference, 0);
  EXPECT_GT(entry(difference, "keys").largest_value, 0);
}

TEST(CompareRecordings, JudgesValuesByTheLargest) {
  const DrawnRecording a;
  DrawnRecording b;
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
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const DrawnRecording a;
  for (const float none : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    DrawnRecording b;
    b.heads[1][1].keys(0, 0) = none;
    EXPECT_EQ(entry(compare(a, b), "keys").n_different, 1);
    EXPECT_FALSE(compare(a, b).agrees());
    EXPECT_TRUE(compare(b, b).agrees());
    DrawnRecording c = b;
    c.heads[1][1].keys(0, 0) = -none;
    EXPECT_EQ(compare(b, c).agrees(), std::isnan(none));
    c.heads[1][1].keys(0, 0) = none;
    c.heads[1][1].keys(1, 0) += 1;  // which no infinity excuses
    EXPECT_FALSE(entry(compare(b, c), "keys").agrees());
  }
}

TEST(CompareRecordings, ForgivesCloseCallsOnly) {
  const DrawnRecording a;
  DrawnRecording b;
  auto& trace = b.heads[1][0].trace;
  trace.evicted_at[5] += 1;
  trace.evicted_margin[5] = 0.5F;
  DrawnRecording close = b;
  close.heads[1][0].trace.evicted_margin[5] = 1e-6F;
  EXPECT_EQ(entry(compare(a, b), "evicted_at").n_close_calls, 0);
  EXPECT_EQ(entry(compare(a, close), "evicted_at").n_close_calls, 1);
  EXPECT_TRUE(entry(compare(a, close), "evicted_at").agrees());
}

// Margins of rows evicted alike: by the largest, and by what decides an eviction.
TEST(CompareRecordings, SeesOtherMargins) {
  DrawnRecording a;
  a.heads[1][0].trace.evicted_margin[5] = 0.01F;
  DrawnRecording b = a;
  float& margin = b.heads[1][0].trace.evicted_margin[5];
  margin = 0.01001F;
  EXPECT_TRUE(compare(a, b).agrees());
  margin = 0.02F;
  EXPECT_FALSE(entry(compare(a, b), "evicted_margin").agrees());
  margin = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(entry(compare(a, b), "evicted_margin").n_different, 1);
  // Once a close call has gone the other way, margins are measured from another row.
  margin = 0.02F;
  for (auto* trace : {&a.heads[1][0].trace, &b.heads[1][0].trace}) trace->evicted_at[5] = 3;
  b.heads[1][0].trace.evicted_at[7] = 2;
  b.heads[1][0].trace.evicted_margin[7] = 1e-6F;
  a.heads[1][0].trace.evicted_at[7] = -1;
  EXPECT_EQ(entry(compare(a, b), "evicted_at").n_close_calls, 1);
  EXPECT_TRUE(entry(compare(a, b), "evicted_margin").agrees());
  b.heads[1][0].trace.evicted_at[7] = 4;
  EXPECT_FALSE(entry(compare(a, b), "evicted_margin").agrees());
}

TEST(CompareRecordings, SeesOtherStatisticsOfAttention) {
  DrawnRecording a;
  recording::AttentionStatistics& about = a.about_attention;
  about.entropy = RowMatrixF::Random(4, 40);
  about.window = RowMatrixF::Random(2, 43);
  about.gini = about.top_share = {0.1, 0.2, 0.3, 0.4};
  about.sink = RowMatrixD::Random(4, 5);
  about.held_bytes = about.packed_bytes = {512, 512};
  EXPECT_TRUE(compare(a, a).agrees());
  const auto seen = [&](const char* dataset, const auto& change) {
    DrawnRecording b = a;
    change(b.about_attention);
    const auto difference = compare(a, b);
    return !difference.agrees() && !entry(difference, dataset).agrees();
  };
  EXPECT_TRUE(seen("attention_entropy", [](auto& b) { b.entropy(3, 39) += 1; }));
  EXPECT_TRUE(seen("attention_window", [](auto& b) { b.window(1, 42) += 1; }));
  EXPECT_TRUE(seen("attention_gini", [](auto& b) { b.gini[3] = 0; }));
  EXPECT_TRUE(seen("attention_top_share", [](auto& b) { b.top_share[0] = 0; }));
  EXPECT_TRUE(seen("attention_sink", [](auto& b) { b.sink(0, 4) += 1; }));
  EXPECT_TRUE(seen("held_bytes", [](auto& b) { b.held_bytes[1] = 0; }));
  EXPECT_TRUE(seen("packed_bytes", [](auto& b) { b.packed_bytes[1] = 0; }));
  DrawnRecording without = a;
  without.about_attention.entropy.resize(0, 0);
  EXPECT_THAT(compare(a, without).structure, Contains(HasSubstr("attention_entropy is only in")));
  // What sinks took of other blocks is something else.
  DrawnRecording coarse = a;
  coarse.about_attention.sink = RowMatrixD::Random(4, 3);
  for (recording::RunInfo& run : coarse.about.runs) {
    run.block_start = {0, 16, 32, 40, 41, 42};
    run.blocks_done = 6;
  }
  const auto sinks = compare(a, coarse).datasets;
  EXPECT_EQ(std::ranges::count(sinks, "attention_sink", &DatasetDifference::dataset), 0);
}

TEST(CompareRecordings, SeesLogitsOfOneOnlyOrOfAnotherVocabulary) {
  const DrawnRecording a;
  DrawnRecording b;
  b.all_logits[1] = b.all_logits[1].leftCols(3).eval();
  EXPECT_THAT(compare(a, b).structure, Contains(HasSubstr("logits of 30 tokens against 3")));
  for (recording::RunInfo& run : b.about.runs) run.n_scored = 0;
  EXPECT_THAT(compare(a, b).structure, Contains(HasSubstr("run keydiff: logits is only in")));
}

TEST(CompareRecordings, SeesOtherTextsAndPlans) {
  DrawnRecording a;
  for (recording::RunInfo& run : a.about.runs) run.generated = {{5, 6}, "ab", {0, 1, 2}};
  a.about.prompt.text = std::string(40, 'x');
  a.about.prompt.offset.resize(41);
  std::iota(a.about.prompt.offset.begin(), a.about.prompt.offset.end(), 0);
  EXPECT_TRUE(compare(a, a).agrees());
  DrawnRecording b = a;
  b.about.runs[1].generated.text = "ac";
  EXPECT_EQ(entry(compare(a, b), "generated_text").n_different, 1);
  EXPECT_FALSE(compare(a, b).agrees());
  const auto said = [&](const auto& change) {
    DrawnRecording other = a;
    change(other.about);
    return ::testing::PrintToString(compare(a, other).structure);
  };
  EXPECT_THAT(said([](auto& about) { about.prompt.text[7] = 'y'; }), HasSubstr("texts of 1 of the prompt's"));
  EXPECT_THAT(said([](auto& about) { about.runs[1].plan.policy = "tova"; }), HasSubstr("against tova"));
  EXPECT_THAT(said([](auto& about) { about.runs[1].plan.oracle = true; }),
              HasSubstr("after the whole prompt"));
  EXPECT_THAT(said([](auto& about) { about.runs[1].plan.cache_positions = true; }),
              HasSubstr("positions in the cache"));
  EXPECT_THAT(said([](auto& about) { about.runs[1].plan.budgets = {4, 8}; }), HasSubstr("budgets of layers"));
}

TEST(CompareRecordings, SaysWhatOnlyOneHas) {
  const DrawnRecording a;
  DrawnRecording b;
  b.about.values = false;
  b.about.runs.pop_back();
  const auto difference = compare(a, b);
  EXPECT_THAT(difference.structure, Contains(HasSubstr("values are only in")));
  EXPECT_THAT(difference.structure, Contains(HasSubstr("run keydiff is only in")));
  EXPECT_FALSE(difference.agrees());
}

TEST(CompareRecordings, ComparesTheHeadsThatBothHave) {
  const DrawnRecording a;
  DrawnRecording b;
  b.about.heads.kv_heads = {1};
  b.heads[1][0].keys.setZero();  // not recorded, and not looked at
  const auto difference = compare(a, b);
  EXPECT_THAT(difference.structure, Contains(HasSubstr("rows of KV head 0 are only in")));
  EXPECT_TRUE(entry(difference, "keys").agrees());
  b.heads[1][1].keys.setZero();
  EXPECT_FALSE(entry(compare(a, b), "keys").agrees());
}

TEST(CompareRecordings, AllowsForRowsThatWereStoredRounded) {
  const DrawnRecording a;
  DrawnRecording b;
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
  const DrawnRecording a;
  DrawnRecording b = a, c = a;
  b.about.prompt.id[2] += 1;
  c.about.model.head_dim += 1;
  EXPECT_THROW(compare(a, b), UsageError);
  EXPECT_THROW(compare(a, c), UsageError);
}

}  // namespace

}  // namespace keyscope::measures

#include "app/measures/head_measures.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/measures/head_bounds.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/drawn_recording.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::measures {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kNone = 0;
constexpr int kKeydiff = 1;
constexpr int kLayer = 3;

nlohmann::json goldens(const std::string& section) {
  return parse_json(
             read_file(std::string(KEYSCOPE_SOURCE_DIR) + "/tests/app/measures/goldens/head_measures.json"))
      .at(section);
}

void expect_near(const std::optional<double>& found, const nlohmann::json& golden, const char* field,
                 double tolerance = 1e-12) {
  ASSERT_TRUE(found.has_value()) << field;
  const double expected = golden[field].get<double>();
  EXPECT_NEAR(*found, expected, tolerance * std::max(1.0, std::abs(expected)))
      << field << " in " << json_text(golden);
}

TEST(HeadMeasures, MatchNumPyAtEveryMoment) {
  const DrawnRecording recording;
  const auto heads = goldens("heads");
  ASSERT_EQ(heads.size(), 8U);
  for (const auto& golden : heads) {
    // The last prompt block is what is taken if nothing else is asked for.
    const std::int64_t block = golden["block"] == 4 ? -1 : golden["block"].get<std::int64_t>();
    const auto found = measure_head(recording, golden["run"].get<int>(), kLayer, golden["kv_head"].get<int>(),
                                    Parts::all(), block);
    EXPECT_EQ(found.layer, kLayer);
    EXPECT_EQ(found.kv_head, golden["kv_head"].get<int>());
    EXPECT_EQ(found.retained, golden["retained"].get<std::vector<std::int32_t>>());
    expect_near(found.spearman, golden, "spearman");
    expect_near(found.spearman_total, golden, "spearman_total");
    expect_near(found.spearman_given_position, golden, "spearman_given_position");
    expect_near(found.kendall, golden, "kendall");
    expect_near(found.top_key_query_cosine, golden, "top_key_query_cosine");
    expect_near(found.participation_ratio, golden, "participation_ratio", 1e-8);
    expect_near(found.effective_rank, golden, "effective_rank", 1e-8);
    expect_near(found.cosine_objective, golden, "cosine_objective");
    expect_near(found.mean_key_cosine, golden, "mean_key_cosine");
    expect_near(found.key_query_mean_cosine, golden, "key_query_mean_cosine");
    expect_near(found.log_volume_nats, golden, "log_volume_nats", 1e-9);
    EXPECT_EQ(found.rank, golden["rank"].get<std::int64_t>());
    expect_near(found.regularised_log_volume_nats, golden, "regularised_log_volume_nats");
    expect_near(found.mean_pairwise_cosine, golden, "mean_pairwise_cosine");
    expect_near(found.attention_mass_kept, golden, "attention_mass_kept");
    expect_near(found.output_error, golden, "output_error");
    ASSERT_TRUE(found.pca_explained.has_value());
    EXPECT_NEAR((*found.pca_explained)[0], golden["pca_explained"][0].get<double>(), 1e-12);
    EXPECT_NEAR((*found.pca_explained)[1], golden["pca_explained"][1].get<double>(), 1e-12);
    EXPECT_EQ(found.bound_pairs, golden["bound_pairs"].get<std::int64_t>());
    EXPECT_EQ(found.bound_pairs_causal, golden["bound_pairs_causal"].get<std::int64_t>());
    EXPECT_EQ(found.bound_violations, golden["bound_violations"].get<std::int64_t>());
    EXPECT_FALSE(found.bound_sampled.has_value());
    expect_near(found.bound_min_slack, golden, "bound_min_slack");
    expect_near(found.bound_min_slack_exact, golden, "bound_min_slack_exact", 1e-10);
  }
}

// What statistics give is there; what needs keys is not.
TEST(HeadMeasures, AHeadWithoutRowsHasTheMeasuresOfItsStatistics) {
  DrawnRecording recording;
  const auto expected = measure_head(recording, kKeydiff, kLayer, 0);
  recording.about.heads.kv_heads = {1};
  const auto found = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_EQ(found.retained, expected.retained);
  EXPECT_EQ(found.attention_mass_kept, expected.attention_mass_kept);
  EXPECT_FALSE(found.spearman || found.spearman_total || found.mean_key_cosine ||
               found.key_query_mean_cosine);
  EXPECT_FALSE(found.log_volume_nats || found.rank || found.regularised_log_volume_nats);
  EXPECT_FALSE(found.mean_pairwise_cosine || found.output_error || found.pca_explained);
  EXPECT_FALSE(found.bound_pairs || found.bound_min_slack);
  EXPECT_TRUE(measure_head(recording, kKeydiff, kLayer, 1).spearman);
}

TEST(HeadMeasures, TheFullCacheKeepsEverything) {
  const auto found = measure_head(DrawnRecording(), kNone, kLayer, 0);
  EXPECT_EQ(found.attention_mass_kept, 1);
  EXPECT_EQ(found.output_error, 0);
  EXPECT_EQ(found.retained.size(), 40U);
}

TEST(HeadMeasures, RowsEvictedWhileGeneratingWereStillThereAfterThePrompt) {
  const DrawnRecording recording;
  const auto after_prompt = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_THAT(after_prompt.retained, testing::Contains(2)) << "evicted at block 6, after the prompt's five";
  const auto at_end = measure_head(recording, kKeydiff, kLayer, 0, Parts::all(), 7);
  EXPECT_THAT(at_end.retained, testing::Not(testing::Contains(2)));
  EXPECT_EQ(at_end.retained.back(), 42);
  EXPECT_LT(*at_end.attention_mass_kept, *after_prompt.attention_mass_kept);
  EXPECT_EQ(at_end.spearman, after_prompt.spearman) << "over all prompt tokens at any moment";
}

TEST(HeadMeasures, WithoutANoneRunNothingIsComparedToIt) {
  DrawnRecording recording;
  recording.about.runs[kNone].plan.policy = "sink";
  const auto found = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_FALSE(found.attention_mass_kept);
  EXPECT_FALSE(found.output_error);
  EXPECT_TRUE(found.spearman);
  EXPECT_FALSE(measure_run(recording, kKeydiff).kl_nats);
}

TEST(HeadMeasures, ANoneRunThatWasCutShortIsNoReference) {
  DrawnRecording recording;
  recording.about.runs[kNone].blocks_done = 4;
  recording.about.runs[kNone].n_tokens = 32;
  EXPECT_FALSE(measure_head(recording, kKeydiff, kLayer, 0).attention_mass_kept);
  const auto partial = measure_head(recording, kNone, kLayer, 0);
  EXPECT_EQ(partial.retained.size(), 32U);
  EXPECT_TRUE(partial.spearman);
}

TEST(HeadMeasures, WhatWasNotRecordedIsEmptyAndLeavesTheRest) {
  DrawnRecording recording;
  recording.about.values = false;
  auto found = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_FALSE(found.output_error);
  EXPECT_TRUE(found.attention_mass_kept);

  recording.about.queries = false;
  found = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_FALSE(found.key_query_mean_cosine);
  EXPECT_FALSE(found.pca_explained);
  EXPECT_FALSE(found.bound_pairs);
  EXPECT_TRUE(found.spearman);
  EXPECT_TRUE(found.log_volume_nats);

  recording.about.keys = false;
  found = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_FALSE(found.spearman);
  EXPECT_FALSE(found.mean_key_cosine);
  EXPECT_FALSE(found.log_volume_nats);
  EXPECT_TRUE(found.attention_mass_kept);
  EXPECT_FALSE(found.retained.empty());
}

TEST(HeadMeasures, ConcentrationIsTheMeanOverTheGroupOfWhatIsKnown) {
  DrawnRecording recording;
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  auto& statistics = recording.about_attention;
  statistics.entropy = RowMatrixF::Constant(4, 40, 9);
  statistics.entropy.row(2).setConstant(1);
  statistics.entropy.row(3).setConstant(2);
  statistics.entropy.rightCols(10).setConstant(std::numeric_limits<float>::quiet_NaN());
  statistics.gini = {kUnknown, kUnknown, 0.25, 0.75};
  statistics.top_share = {kUnknown, kUnknown, kUnknown, 0.125};
  recording.heads[kKeydiff][1].trace.attention_received[0] = 30;
  const auto found = measure_head(recording, kKeydiff, kLayer, 1);
  EXPECT_EQ(found.attention_entropy_nats, 1.5);
  EXPECT_EQ(found.attention_gini, 0.5);
  EXPECT_EQ(found.attention_top_share, 0.125);
  EXPECT_EQ(found.sink_metric, 0.75) << "30 of what 40 queries gave";
  EXPECT_FALSE(measure_head(recording, kKeydiff, kLayer, 0).attention_gini);

  recording.heads[kKeydiff][1].trace.attention_queries[0] = 0;
  EXPECT_FALSE(measure_head(recording, kKeydiff, kLayer, 1).sink_metric) << "as in a replayed run";
}

TEST(HeadMeasures, ConstantInputHasNoCorrelation) {
  DrawnRecording recording;
  auto& head = recording.heads[kNone][0];
  head.keys.setOnes();
  for (auto& queries : head.queries) queries.setOnes();
  const auto found = measure_head(recording, kNone, kLayer, 0);
  EXPECT_FALSE(found.spearman);
  EXPECT_FALSE(found.pca_explained);
  EXPECT_EQ(found.rank, 1);
  EXPECT_DOUBLE_EQ(*found.mean_key_cosine, 1);
  EXPECT_EQ(found.bound_pairs, 0);
  EXPECT_FALSE(found.bound_min_slack);

  head.keys.setZero();
  const auto zero = measure_head(recording, kNone, kLayer, 0);
  EXPECT_FALSE(zero.mean_key_cosine);
  EXPECT_FALSE(zero.key_query_mean_cosine);
  EXPECT_EQ(zero.rank, 0);
}

TEST(HeadMeasures, BeforeTheFirstBlockThereIsNothing) {
  DrawnRecording recording;
  recording.about.runs[kKeydiff].blocks_done = 0;
  recording.about.runs[kKeydiff].n_tokens = 0;
  recording.about.runs[kKeydiff].block_start.clear();
  const auto found = measure_head(recording, kKeydiff, kLayer, 0);
  EXPECT_TRUE(found.retained.empty());
  EXPECT_FALSE(found.spearman);
  EXPECT_FALSE(found.log_volume_nats);
  EXPECT_FALSE(found.attention_mass_kept);
  EXPECT_FALSE(found.bound_pairs);
}

TEST(HeadMeasures, NotFiniteEntriesAreNamed) {
  DrawnRecording recording;
  recording.heads[kKeydiff][1].keys(5, 2) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT([&] { measure_head(recording, kKeydiff, kLayer, 1); },
              ThrowsMessage<FileError>(AllOf(
                  HasSubstr("fake.h5"), HasSubstr("run keydiff, layer 3, KV head 1"), HasSubstr("row 5"))));
  recording.heads[kNone][0].values(1, 1) = std::numeric_limits<float>::infinity();
  EXPECT_THROW(measure_head(recording, kKeydiff, kLayer, 0), FileError);
  recording.heads[kNone][0].values(1, 1) = 0;
  recording.heads[kNone][0].trace.attention_received[3] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(measure_head(recording, kNone, kLayer, 0), FileError);
}

TEST(HeadMeasures, RefusesWhatIsNotThere) {
  const DrawnRecording recording;
  EXPECT_THROW(measure_head(recording, 2, kLayer, 0), FileError);
  EXPECT_THROW(measure_head(recording, -1, kLayer, 0), FileError);
  EXPECT_THROW(measure_head(recording, kNone, 0, 0), FileError);
  EXPECT_THROW(measure_head(recording, kNone, kLayer, 0, Parts::all(), 8), InvalidInput);
}

TEST(HeadMeasures, MComesFromTheConfigurationWithoutLogits) {
  DrawnRecording recording;
  const auto by_logits = measure_head(recording, kKeydiff, kLayer, 0).output_error;
  for (auto& run : recording.about.runs) run.n_scored = 0;
  recording.about.provenance.configuration = R"({"score_last": 4})";
  EXPECT_EQ(measure_head(recording, kKeydiff, kLayer, 0).output_error, by_logits);
  recording.about.provenance.configuration = R"({"score_last": 32})";
  const auto by_default = measure_head(recording, kKeydiff, kLayer, 0).output_error;
  EXPECT_NE(by_default, by_logits);
  for (const char* text : {"", "[1]", R"({"score_last": "4"})", R"({"score_last": 0})"}) {
    recording.about.provenance.configuration = text;
    EXPECT_EQ(measure_head(recording, kKeydiff, kLayer, 0).output_error, by_default) << text;
  }
}

TEST(RunMeasures, ComparesLogitsWithTheFullCache) {
  DrawnRecording recording;
  const auto golden = goldens("logits");
  const auto found = measure_run(recording, kKeydiff);
  EXPECT_EQ(found.run, "keydiff");
  EXPECT_NEAR(*found.kl_nats, golden["kl_nats"].get<double>(), 1e-12);
  EXPECT_EQ(found.top1_agreement, golden["top1_agreement"].get<double>());
  EXPECT_EQ(measure_run(recording, kNone).kl_nats, 0);
  EXPECT_EQ(measure_run(recording, kNone).top1_agreement, 1);

  recording.about.runs[kKeydiff].n_scored = 0;
  EXPECT_FALSE(measure_run(recording, kKeydiff).kl_nats);
  EXPECT_THROW(measure_run(recording, 9), FileError);
  recording.about.runs[kKeydiff].n_scored = 4;
  recording.all_logits[kKeydiff](0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT([&] { measure_run(recording, kKeydiff); }, ThrowsMessage<FileError>(HasSubstr("run keydiff")));
}

using testing::DoubleEq;
using testing::ElementsAre;

TEST(ScoreAttention, TokensThatNoQuerySawHaveASumAndNoRate) {
  recording::HeadTrace trace;
  trace.attention_received = {3, 0, 1};
  trace.attention_queries = {4, 0, 2};
  const ScoreAttention pairs = pair_score_attention(Eigen::Vector3d(0.5, -0.25, -1), trace);
  EXPECT_THAT(pairs.score, ElementsAre(-0.5, 0.25, 1));
  EXPECT_THAT(pairs.total, ElementsAre(3, 0, 1));
  EXPECT_THAT(pairs.seen, ElementsAre(0, 2));
  EXPECT_THAT(pairs.seen_score, ElementsAre(-0.5, 1));
  EXPECT_THAT(pairs.attention_per_query, ElementsAre(0.75, 0.5));
  const ScoreAgreement agreement = correlate(pairs);
  EXPECT_THAT(agreement.spearman, testing::Optional(DoubleEq(-1)));
  EXPECT_THAT(agreement.spearman_total, testing::Optional(DoubleEq(-0.5))) << "ranks 1 2 3 against 3 1 2";
}

TEST(ScoreAttention, WhatHasNoCorrelationHasNone) {
  const ScoreAgreement agreement = correlate({});
  EXPECT_FALSE(agreement.spearman || agreement.spearman_total || agreement.spearman_given_position ||
               agreement.kendall);
}

TEST(ScoreAttention, ARecordedHeadAgreesWithItsMeasures) {
  figures::FakeRecording recording(2, 4, 2, 4, 32, 8);
  recording.add_run("none", 0);
  recording.fill(5);
  const ScoreAgreement agreement = correlate(read_score_attention(recording, {0, 1, 1}));
  const HeadMeasures measures = measure_head(recording, 0, 1, 1);
  ASSERT_TRUE(measures.spearman);
  EXPECT_EQ(agreement.spearman, measures.spearman);
  EXPECT_EQ(agreement.spearman_total, measures.spearman_total);
  EXPECT_EQ(agreement.spearman_given_position, measures.spearman_given_position);
  EXPECT_EQ(agreement.kendall, measures.kendall);
}

TEST(ScoreAttention, KeysWhoseMeanHasNoDirectionHaveNoScores) {
  figures::FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("none", 0);
  EXPECT_TRUE(read_score_attention(recording, {0, 0, 0}).score.empty());
}

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
  ASSERT_TRUE(measures.bound_min_slack);
  EXPECT_NEAR(bounds.theorem.min_slack, *measures.bound_min_slack, 1e-15);
  EXPECT_EQ(bounds.lemma.pairs, 2 * 32 * 31 / 2 + 2 * 31)
      << "every visible key of two query heads; query 0 sees one";
}

TEST(HeadBounds, EveryRecordedHeadComesInOrder) {
  figures::FakeRecording recording = one_run();
  recording.edit_info().heads.kv_heads = {1};
  const auto heads = measure_all_bounds(recording, 0);
  ASSERT_EQ(heads.size(), 2U);
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(heads[layer].layer, layer);
    EXPECT_EQ(heads[layer].kv_head, 1);
    EXPECT_EQ(heads[layer].theorem.min_slack, measure_bounds(recording, 0, layer, 1).theorem.min_slack);
  }
}

}  // namespace

}  // namespace keyscope::measures

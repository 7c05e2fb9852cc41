#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/similarity.hpp"
#include "analysis/statistics.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/head_measure.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/recording_measures.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

// Figures over all heads of a recording: each shows what the measures say, head by head.

namespace {

using measures::HeadMeasures;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kLayers = 3, kKvHeads = 2, kKeydiffRun = 0, kNoneRun = 1;

FakeRecording keydiff_and_none() {
  FakeRecording recording(kLayers, 4, kKvHeads, 4, 32, 8);
  recording.add_run("keydiff", 8);
  recording.add_run("none", 0);
  recording.fill(3);
  return recording;
}

TEST(HeadMap, EveryCellIsItsHeadsMeasure) {
  const FakeRecording recording = keydiff_and_none();
  for (const auto& [name, measure] :
       {std::pair{"mean-key-query-cosine", &HeadMeasures::key_query_mean_cosine},
        std::pair{"top-key-query-cosine", &HeadMeasures::top_key_query_cosine}}) {
    const Figure figure = key_query_cosine_figure(recording, {.name = name});
    const Heatmap& map = *figure.panels.front().heatmap;
    ASSERT_EQ(map.values.rows(), kLayers);
    ASSERT_EQ(map.values.cols(), kKvHeads);
    for (int layer = 0; layer < kLayers; ++layer)
      for (int head = 0; head < kKvHeads; ++head)
        EXPECT_NEAR(map.values(layer, head),
                    *(measures::measure_head(recording, kNoneRun, layer, head).*measure), 1e-6);
    EXPECT_DOUBLE_EQ(map.x_last(), kKvHeads - 0.5) << "a cell's middle is its head's number";
    EXPECT_DOUBLE_EQ(map.y_last(), kLayers - 0.5);
  }
}

TEST(HeadMap, LayersThatWereNotRecordedAreBlank) {
  FakeRecording recording = keydiff_and_none();
  recording.edit_info().layers = {0, 2};
  const Figure figure = key_query_cosine_figure(recording, {.name = "mean-key-query-cosine"});
  const RowMatrixF& values = figure.panels.front().heatmap->values;
  ASSERT_EQ(values.rows(), 3);
  EXPECT_FALSE(std::isnan(values(0, 0)));
  EXPECT_TRUE(std::isnan(values(1, 0)));
  EXPECT_FALSE(std::isnan(values(2, 1)));
  EXPECT_THROW(key_query_cosine_figure(recording, {.name = "mean-key-query-cosine", .runs = {"sink"}}),
               UsageError);
}

TEST(HeadMap, LayersWithoutKeysAreBlankAndNamed) {
  FakeRecording recording = keydiff_and_none();
  recording.edit_info().layers = {1};
  recording.edit_info().keyless_layers = {0, 2};
  const Figure figure = key_query_cosine_figure(recording, {.name = "mean-key-query-cosine"});
  const RowMatrixF& values = figure.panels.front().heatmap->values;
  ASSERT_EQ(values.rows(), 3);
  EXPECT_TRUE(std::isnan(values(0, 0)));
  EXPECT_FALSE(std::isnan(values(1, 0)));
  EXPECT_TRUE(std::isnan(values(2, 1)));
  EXPECT_THAT(figure.panels.front().note, HasSubstr("2 layers have no keys: their mixers are recurrent"));
  EXPECT_THAT(norms_figure(recording, {}).caption, HasSubstr("2 layers have no keys"));
  try {
    check_request(*recording.info(), {.name = "attention", .layer = 2});
    FAIL() << "layer 2 has no keys";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer 2 has no keys: its mixer is recurrent; layers with keys: 1"));
  }
}

TEST(HeadMap, HeadsThatWereNotRecordedAreBlank) {
  FakeRecording recording = keydiff_and_none();
  recording.edit_info().heads.kv_heads = {1};
  const Figure figure = key_query_cosine_figure(recording, {.name = "mean-key-query-cosine"});
  const RowMatrixF& values = figure.panels.front().heatmap->values;
  EXPECT_TRUE(std::isnan(values(0, 0)));
  EXPECT_FALSE(std::isnan(values(0, 1)));
  EXPECT_EQ(norms_figure(recording, {}).panels.front().points.front().x.size(), std::size_t{kLayers});
}

TEST(HeadSpread, NormsAndCosinesAreThoseOfTheHead) {
  const FakeRecording recording = keydiff_and_none();
  const RowMatrixF keys = recording.keys(kNoneRun, 1, 1, 0, 32);
  const Eigen::VectorXd norms = analysis::row_norms(keys);
  const Eigen::VectorXd cosines = analysis::cosines_to(keys, analysis::mean_row(keys));
  const auto median = [](const Eigen::VectorXd& values) {
    return static_cast<float>(analysis::quantiles({values.data(), 32}, std::array{0.5})[0]);
  };
  for (const auto& [figure, expected] : {std::pair{norms_figure(recording, {}), median(norms)},
                                         std::pair{mean_cosines_figure(recording, {}), median(cosines)}}) {
    ASSERT_EQ(figure.panels.size(), 2U) << "keys and queries";
    const PointSeries& middles = figure.panels.front().points.front();
    ASSERT_EQ(middles.x.size(), static_cast<std::size_t>(kLayers * kKvHeads));
    EXPECT_NEAR(middles.x[3], 1.2, 1e-6) << "right of layer 1's number";
    EXPECT_FLOAT_EQ(middles.y[3], expected);
  }
}

TEST(HeadSpread, WithoutQueriesThereAreKeys) {
  FakeRecording recording = keydiff_and_none();
  recording.edit_info().queries = false;
  EXPECT_EQ(norms_figure(recording, {}).panels.size(), 1U);
  recording.edit_info().keys = false;
  EXPECT_THROW(norms_figure(recording, {}), FileError);
}

TEST(PolicySpread, EveryHeadIsAPointAboveItsRun) {
  FakeRecording recording = keydiff_and_none();
  recording.edit_info().values = true;
  for (const auto& [name, measure] : {std::pair{"log-volume", &HeadMeasures::log_volume_nats},
                                      std::pair{"redundancy", &HeadMeasures::mean_pairwise_cosine},
                                      std::pair{"attention-mass", &HeadMeasures::attention_mass_kept},
                                      std::pair{"output-error", &HeadMeasures::output_error}}) {
    const Figure figure = policy_spread_figure(recording, {.name = name});
    const Panel& panel = figure.panels.front();
    EXPECT_THAT(panel.x.categories, ElementsAre("keydiff", "none"));
    const PointSeries& cloud = panel.points.front();
    ASSERT_EQ(cloud.x.size(), static_cast<std::size_t>(2 * kLayers * kKvHeads)) << name;
    EXPECT_NEAR(cloud.x.front(), 0, 0.5);
    EXPECT_NEAR(cloud.x.back(), 1, 0.5);
    const double expected = *(measures::measure_head(recording, kKeydiffRun, 0, 0).*measure);
    EXPECT_NEAR(cloud.y.front(), expected, 1e-5 * std::abs(expected));
  }
}

TEST(PolicySpread, ASumIsNotComparedWithThatOfAllKeys) {
  const FakeRecording recording = keydiff_and_none();
  const Figure figure =
      policy_spread_figure(recording, {.name = "cosine-objective", .runs = {"none", "keydiff"}});
  EXPECT_THAT(figure.panels.front().x.categories, ElementsAre("keydiff"));
  EXPECT_THAT(figure.caption, HasSubstr("the full cache's is left out"));
  EXPECT_NEAR(figure.panels.front().points.front().x.back(), 0, 0.5);
  const Figure alone = policy_spread_figure(recording, {.name = "cosine-objective", .runs = {"none"}});
  EXPECT_THAT(alone.panels.front().x.categories, ElementsAre("none"));
}

TEST(PolicySpread, AMeasureThatNoHeadHasIsSaid) {
  const FakeRecording recording = keydiff_and_none();
  EXPECT_THROW(policy_spread_figure(recording, {.name = "output-error", .runs = {"keydiff"}}), FileError)
      << "no values";
  EXPECT_THROW(policy_spread_figure(recording, {.name = "log-volume", .runs = {"keydiff"}, .block = 4}),
               UsageError);
}

TEST(RankCorrelation, ALayersMarkIsTheMeanOverItsHeads) {
  const FakeRecording recording = keydiff_and_none();
  const Figure figure = rank_correlation_figure(recording, {});
  const PointSeries& per_query = figure.panels.front().points.front();
  ASSERT_EQ(per_query.y.size(), static_cast<std::size_t>(kLayers));
  double sum = 0;
  for (int head = 0; head < kKvHeads; ++head)
    sum += *measures::measure_head(recording, kNoneRun, 2, head).spearman;
  EXPECT_NEAR(per_query.y[2], sum / kKvHeads, 1e-6);
  EXPECT_EQ(figure.panels.front().points.size(), 3U) << "per query, in total, and given position";
}

FakeRecording three_runs_with_values() {
  FakeRecording recording(2, 4, 2, 4, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.add_run("sink", 10);
  recording.fill(2);
  recording.edit_info().values = true;
  return recording;
}

FigureRequest asked(const char* measure, const char* reference) {
  FigureRequest request;
  request.name = "head-map";
  request.runs = {"keydiff"};
  request.measure = measure;
  if (reference != nullptr) request.reference = reference;
  return request;
}

std::vector<measures::HeadMeasures> heads_of(const recording::Recording& recording, int run) {
  const measures::Moment end{run};
  return measures::measure_heads(recording, {&end, 1}, measures::Parts::all()).front();
}

// The slow way: out of the JSON that `analyze` writes.
RowMatrixF from_analyze(const recording::Recording& recording, const std::string& id, int run,
                        int reference) {
  std::vector<measures::RunMeasures> runs;
  for (const int r : {run, reference})
    runs.push_back({recording.info()->runs[r].plan.name, {}, {}, heads_of(recording, r), {}});
  const auto json = measures::measures_json(*recording.info(), runs);
  RowMatrixF grid(2, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto &here = json["runs"][0]["heads"][i], &there = json["runs"][1]["heads"][i];
    grid(here["layer"].get<int>(), here["kv_head"].get<int>()) =
        static_cast<float>(here[id].get<double>() - there[id].get<double>());
  }
  return grid;
}

TEST(HeadComparison, IsTheDifferenceOfWhatAnalyzeReports) {
  const FakeRecording recording = three_runs_with_values();
  for (const char* id : {"log_volume_nats", "mean_pairwise_cosine", "attention_mass_kept",
                         "participation_ratio", "effective_rank", "cosine_objective", "output_error"}) {
    const Figure figure = build_figure(recording, asked(id, "sink"));
    const Heatmap& map = *figure.panels.at(0).heatmap;
    EXPECT_EQ(map.values, from_analyze(recording, id, 1, 2)) << id;
    EXPECT_EQ(map.colour_map, ColourMap::kDiverging) << id;
    EXPECT_EQ(map.low, -map.high) << "centred at 0";
    EXPECT_FLOAT_EQ(map.high, map.values.cwiseAbs().maxCoeff());
    EXPECT_THAT(figure.title, HasSubstr("keydiff − sink"));
  }
}

TEST(HeadComparison, WithoutAReferenceIsTheMeasureItself) {
  const FakeRecording recording = three_runs_with_values();
  const auto heads = heads_of(recording, 1);
  const Figure figure = build_figure(recording, asked("log_volume_nats", nullptr));
  const Heatmap& map = *figure.panels.at(0).heatmap;
  EXPECT_EQ(map.values(1, 0), static_cast<float>(*heads[2].log_volume_nats));
  EXPECT_EQ(map.units, "nats");
  EXPECT_EQ(map.low, map.values.minCoeff());
  EXPECT_EQ(map.high, map.values.maxCoeff());
}

TEST(HeadComparison, OverlapCountsWhatBothRetained) {
  FakeRecording recording(1, 1, 1, 2, 4, 2);
  recording.add_run("keydiff", 2);
  recording.add_run("sink", 2);
  recording.fill(1);
  recording.evicted_at(0, 0, 0) = {1, -1, 1, -1};  // {1, 3}
  recording.evicted_at(1, 0, 0) = {1, -1, -1, 1};  // {1, 2}: one of three
  const Figure figure = build_figure(recording, asked("retained_overlap", "sink"));
  EXPECT_FLOAT_EQ(figure.panels.at(0).heatmap->values(0, 0), 1.0F / 3);
  EXPECT_THAT(figure.title, HasSubstr("keydiff and sink"));
}

TEST(HeadComparison, AMissingValueIsBlankAndExplained) {
  FakeRecording recording = three_runs_with_values();
  recording.edit_info().values = false;
  const Figure figure = build_figure(recording, asked("output_error", nullptr));
  EXPECT_TRUE(figure.panels.at(0).heatmap->values.array().isNaN().all());
  EXPECT_EQ(figure.panels[0].note, "4 of 4 heads have no value: it needs recorded keys, queries and values");
}

TEST(HeadComparison, RefusesWhatIsNotThere) {
  const FakeRecording recording = three_runs_with_values();
  EXPECT_THROW(build_figure(recording, asked("volume", nullptr)), UsageError);
  EXPECT_THROW(build_figure(recording, asked("spearman", "tova")), UsageError);
  EXPECT_THROW(build_figure(recording, asked("retained_overlap", nullptr)), UsageError);
}

TEST(HeadMeasures, HaveTheNamesOfAnalyze) {
  measures::RunMeasures run{"keydiff", {}, {}, heads_of(three_runs_with_values(), 1), {}};
  const auto head = measures::measures_json(*three_runs_with_values().info(), {run})["runs"][0]["heads"][0];
  std::set<std::string> ids;
  for (const HeadMeasure& measure : head_measures()) {
    EXPECT_TRUE(ids.insert(measure.id).second) << measure.id;
    EXPECT_TRUE(measure.of_two_runs() || head.contains(measure.id)) << measure.id;
    EXPECT_EQ(&find_head_measure(measure.id), &measure);
  }
}

using testing::FloatNear;

constexpr int kFull = 0, kEvicted = 1;

FakeRecording full_and_evicted() {
  FakeRecording recording(2, 4, 2, 4, 32, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 8);
  recording.fill(2);
  return recording;
}

// Three keys along (1, 0), (0, 1) and (-1, 1): their mean is (0, 2/3). The fake's attention is 1, 3/2 and
// 5/3, received from 3, 2 and 1 queries.
FakeRecording three_keys() {
  FakeRecording recording(1, 1, 1, 2, 3, 3);
  recording.add_run("none", 0);
  recording.keys_of(0, 0, 0) << 1, 0, 0, 1, -1, 1;
  return recording;
}

const PointSeries& series(const Figure& figure, const std::string& id) {
  for (const PointSeries& each : figure.panels.front().points)
    if (each.id == id) return each;
  throw InvalidInput("no series " + id);
}

TEST(ScoreAttentionFigure, APointIsAKeysScoreAndTheLogarithmOfItsAttention) {
  const Figure figure = score_attention_figure(three_keys(), {});
  const PointSeries& keys = series(figure, "retained");
  EXPECT_THAT(keys.token, ElementsAre(0, 1, 2));
  EXPECT_THAT(keys.x,
              ElementsAre(FloatNear(0, 1e-6F), FloatNear(-1, 1e-6F), FloatNear(-std::sqrt(0.5F), 1e-6F)));
  EXPECT_THAT(keys.y,
              ElementsAre(FloatNear(std::log10(1.0F / 3), 1e-6F), FloatNear(std::log10(3.0F / 4), 1e-6F),
                          FloatNear(std::log10(5.0F / 3), 1e-6F)));
}

TEST(ScoreAttentionFigure, RanksCountFromOne) {
  const PointSeries keys = series(score_attention_figure(three_keys(), {.ranks = true}), "retained");
  EXPECT_THAT(keys.x, ElementsAre(3, 1, 2));
  EXPECT_THAT(keys.y, ElementsAre(1, 2, 3));
}

TEST(ScoreAttentionFigure, TheTitleSaysWhatAnalyzeSays) {
  const FakeRecording recording = full_and_evicted();
  const auto measures = measures::measure_head(recording, kFull, 1, 0);
  const Figure figure = score_attention_figure(recording, {.layer = 1});
  const auto shown = [](double rho) { return fmt::format("{}{:.2f}", rho < 0 ? "−" : "", std::abs(rho)); };
  EXPECT_THAT(figure.title, HasSubstr("ρ = " + shown(*measures.spearman)));
  EXPECT_THAT(figure.title, HasSubstr("fixed " + shown(*measures.spearman_given_position)));
}

TEST(ScoreAttentionFigure, EvictedKeysAreRings) {
  const FakeRecording recording = full_and_evicted();
  const Figure figure = score_attention_figure(recording, {.runs = {"keydiff"}, .kv_head = 1});
  EXPECT_EQ(series(figure, "evicted").token.size(), 24U);
  EXPECT_EQ(series(figure, "retained").token, measures::measure_head(recording, kEvicted, 0, 1).retained);
  EXPECT_EQ(series(figure, "evicted").marker, Marker::kRing);
}

TEST(ScoreAttentionFigure, SelectionsThatAreNotThereAreRefused) {
  FakeRecording recording = full_and_evicted();
  EXPECT_THROW(score_attention_figure(recording, {.runs = {"sink"}}), UsageError);
  EXPECT_THROW(score_attention_figure(recording, {.layer = 9}), UsageError);
  EXPECT_THROW(score_attention_figure(recording, {.kv_head = 2}), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(score_attention_figure(recording, {}), FileError);
}

}  // namespace

}  // namespace keyscope::figures

// Figures over all heads of a recording: each shows what the measures say, head by head.

#include <algorithm>
#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "analysis/quantiles.hpp"
#include "analysis/similarity.hpp"
#include "app/figures/head_map.hpp"
#include "app/figures/head_spread.hpp"
#include "app/figures/policy_spread.hpp"
#include "app/figures/rank_correlation.hpp"
#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kLayers = 3, kKvHeads = 2, kKeydiff = 0, kNone = 1;

FakeRecording two_runs() {
  FakeRecording recording(kLayers, 4, kKvHeads, 4, 32, 8);
  recording.add_run("keydiff", 8);
  recording.add_run("none", 0);
  recording.fill(3);
  return recording;
}

TEST(HeadMap, EveryCellIsItsHeadsMeasure) {
  const FakeRecording recording = two_runs();
  for (const MappedMeasure& measure : mapped_measures()) {
    const Figure figure = head_map_figure(recording, kNone, measure);
    const Heatmap& map = *figure.panels.front().heatmap;
    ASSERT_EQ(map.values.rows(), kLayers);
    ASSERT_EQ(map.values.cols(), kKvHeads);
    for (int layer = 0; layer < kLayers; ++layer)
      for (int head = 0; head < kKvHeads; ++head)
        EXPECT_NEAR(map.values(layer, head),
                    *(measures::measure_head(recording, kNone, layer, head).*measure.value), 1e-6);
    EXPECT_DOUBLE_EQ(map.x_last(), kKvHeads - 0.5) << "a cell's middle is its head's number";
    EXPECT_DOUBLE_EQ(map.y_last(), kLayers - 0.5);
  }
}

TEST(HeadMap, LayersThatWereNotRecordedAreBlank) {
  FakeRecording recording = two_runs();
  recording.edit_info().layers = {0, 2};
  const Figure figure = head_map_figure(recording, kNone, mapped_measures().front());
  const RowMatrixF& values = figure.panels.front().heatmap->values;
  ASSERT_EQ(values.rows(), 3);
  EXPECT_FALSE(std::isnan(values(0, 0)));
  EXPECT_TRUE(std::isnan(values(1, 0)));
  EXPECT_FALSE(std::isnan(values(2, 1)));
  EXPECT_THROW(head_map_figure(recording, 2, mapped_measures().front()), UsageError);
}

TEST(HeadMap, HeadsThatWereNotRecordedAreBlank) {
  FakeRecording recording = two_runs();
  recording.edit_info().heads.kv_heads = {1};
  const Figure figure = head_map_figure(recording, kNone, mapped_measures().front());
  const RowMatrixF& values = figure.panels.front().heatmap->values;
  EXPECT_TRUE(std::isnan(values(0, 0)));
  EXPECT_FALSE(std::isnan(values(0, 1)));
  EXPECT_EQ(norms_figure(recording, kNone).panels.front().points.front().x.size(), std::size_t{kLayers});
}

TEST(HeadSpread, NormsAndCosinesAreThoseOfTheHead) {
  const FakeRecording recording = two_runs();
  const RowMatrixF keys = recording.keys(kNone, 1, 1, 0, 32);
  const Eigen::VectorXd norms = analysis::row_norms(keys);
  const Eigen::VectorXd cosines = analysis::cosines_to(keys, analysis::mean_row(keys));
  const auto median = [](const Eigen::VectorXd& values) {
    return static_cast<float>(analysis::quantiles({values.data(), 32}, std::array{0.5})[0]);
  };
  for (const auto& [figure, expected] : {std::pair{norms_figure(recording, kNone), median(norms)},
                                         std::pair{mean_cosines_figure(recording, kNone), median(cosines)}}) {
    ASSERT_EQ(figure.panels.size(), 2U) << "keys and queries";
    const PointSeries& middles = figure.panels.front().points.front();
    ASSERT_EQ(middles.x.size(), static_cast<std::size_t>(kLayers * kKvHeads));
    EXPECT_NEAR(middles.x[3], 1.2, 1e-6) << "right of layer 1's number";
    EXPECT_FLOAT_EQ(middles.y[3], expected);
  }
}

TEST(HeadSpread, WithoutQueriesThereAreKeys) {
  FakeRecording recording = two_runs();
  recording.edit_info().queries = false;
  EXPECT_EQ(norms_figure(recording, kNone).panels.size(), 1U);
  recording.edit_info().keys = false;
  EXPECT_THROW(norms_figure(recording, kNone), FileError);
}

TEST(PolicySpread, EveryHeadIsAPointAboveItsRun) {
  FakeRecording recording = two_runs();
  recording.edit_info().values = true;
  for (const ComparedMeasure& measure : compared_measures()) {
    if (measure.grows_with_size) continue;
    const Figure figure = policy_spread_figure(recording, {{kKeydiff, kNone}, -1}, measure);
    const Panel& panel = figure.panels.front();
    EXPECT_THAT(panel.x.categories, ElementsAre("keydiff", "none"));
    const PointSeries& cloud = panel.points.front();
    ASSERT_EQ(cloud.x.size(), static_cast<std::size_t>(2 * kLayers * kKvHeads)) << measure.figure;
    EXPECT_NEAR(cloud.x.front(), 0, 0.5);
    EXPECT_NEAR(cloud.x.back(), 1, 0.5);
    const double expected = *(measures::measure_head(recording, kKeydiff, 0, 0).*measure.value);
    EXPECT_NEAR(cloud.y.front(), expected, 1e-5 * std::abs(expected));
  }
}

TEST(PolicySpread, ASumIsNotComparedWithThatOfAllKeys) {
  const FakeRecording recording = two_runs();
  const auto measures = compared_measures();
  const auto sum = std::ranges::find(measures, "cosine-objective", &ComparedMeasure::figure);
  ASSERT_NE(sum, measures.end());
  const Figure figure = policy_spread_figure(recording, {{kNone, kKeydiff}, -1}, *sum);
  EXPECT_THAT(figure.panels.front().x.categories, ElementsAre("keydiff"));
  EXPECT_THAT(figure.caption, HasSubstr("the full cache's is left out"));
  EXPECT_NEAR(figure.panels.front().points.front().x.back(), 0, 0.5);
  const Figure alone = policy_spread_figure(recording, {{kNone}, -1}, *sum);
  EXPECT_THAT(alone.panels.front().x.categories, ElementsAre("none"));
}

TEST(PolicySpread, AMeasureThatNoHeadHasIsSaid) {
  const FakeRecording recording = two_runs();
  const auto& error = compared_measures().back();
  ASSERT_EQ(error.figure, "output-error");
  EXPECT_THROW(policy_spread_figure(recording, {{kKeydiff}, -1}, error), FileError) << "no values";
  EXPECT_THROW(policy_spread_figure(recording, {{kKeydiff}, 4}, compared_measures().front()), UsageError);
}

TEST(RankCorrelation, ALayersMarkIsTheMeanOverItsHeads) {
  const FakeRecording recording = two_runs();
  const Figure figure = rank_correlation_figure(recording, kNone);
  const PointSeries& per_query = figure.panels.front().points.front();
  ASSERT_EQ(per_query.y.size(), static_cast<std::size_t>(kLayers));
  double sum = 0;
  for (int head = 0; head < kKvHeads; ++head)
    sum += *measures::measure_head(recording, kNone, 2, head).spearman;
  EXPECT_NEAR(per_query.y[2], sum / kKvHeads, 1e-6);
  EXPECT_EQ(figure.panels.front().points.size(), 3U) << "per query, in total, and given position";
}

}  // namespace
}  // namespace keyscope::figures

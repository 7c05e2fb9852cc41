#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/statistics.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/head_measures.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One head, so that the median is that head's number.
FakeRecording anchors() {
  FakeRecording recording(1, 1, 1, 4, 40, 8);
  recording.add_run("none", 0);
  for (const char* anchor : {"mean", "median"}) {
    const int run = recording.add_run("keydiff", 10);
    auto& plan = recording.edit_info().runs[run].plan;
    plan.parameters = std::string(R"({"anchor":")") + anchor + R"("})";
    plan.name = std::string("keydiff") + (run > 1 ? "-2" : "");
  }
  recording.fill(2);
  recording.edit_info().values = true;
  return recording;
}

TEST(Ablation, NumbersAreThoseOfAnalyze) {
  const FakeRecording recording = anchors();
  const Figure figure = ablation_figure(recording, {.runs = {"none", "keydiff", "keydiff-2"}});
  ASSERT_EQ(figure.panels.size(), 2U) << "no logits were recorded";
  for (const int run : {1, 2}) {
    const auto measured = measures::measure_head(recording, run, 0, 0);
    const auto at = static_cast<std::size_t>(run - 1);
    EXPECT_FLOAT_EQ(figure.panels[0].points[0].y[at], static_cast<float>(*measured.attention_mass_kept));
    EXPECT_FLOAT_EQ(figure.panels[1].points[0].y[at], static_cast<float>(*measured.output_error));
  }
}

TEST(Ablation, RunsOfOnePolicyAreCalledByWhatDiffers) {
  FakeRecording recording = anchors();
  const Figure figure = ablation_figure(recording, {.runs = {"none", "keydiff", "keydiff-2"}});
  EXPECT_THAT(figure.panels.front().x.categories, ElementsAre("anchor mean", "anchor median"));
  EXPECT_THAT(figure.caption, HasSubstr(", keydiff, N = 10, B = 8"));
  auto& median = recording.edit_info().runs[2].plan;
  median.parameters = R"({"anchor":"median","metric":"dot"})";
  recording.edit_info().runs[1].plan.parameters = R"({"anchor":"mean","metric":"dot"})";
  recording.add_run("keydiff", 10);
  auto& third = recording.edit_info().runs.back().plan;
  third.name = "keydiff-3";
  third.parameters = R"({"anchor":"mean","metric":"cosine"})";
  recording.fill(2);
  EXPECT_THAT(
      ablation_figure(recording, {.runs = {"keydiff", "keydiff-2", "keydiff-3"}}).panels.front().x.categories,
      ElementsAre("anchor mean, metric dot", "anchor median", "metric cosine"));
}

TEST(Ablation, RunsOfSeveralPoliciesKeepTheirNames) {
  FakeRecording recording = anchors();
  recording.add_run("sink", 10);
  recording.fill(2);
  EXPECT_THAT(ablation_figure(recording, {.runs = {"keydiff", "sink"}}).panels.front().x.categories,
              ElementsAre("keydiff, anchor mean", "sink"));
}

TEST(Ablation, RefusesWhatIsNotThere) {
  EXPECT_THROW(ablation_figure(anchors(), {.runs = {"none"}}), FileError) << "nothing evicts";
  EXPECT_THROW(ablation_figure(anchors(), {.runs = {"keydiff", "tova"}}), UsageError);
  EXPECT_THROW(ablation_figure(anchors(), {.runs = {"keydiff"}, .block = 5}), UsageError);
  FakeRecording recording(1, 1, 1, 4, 40, 8);
  recording.add_run("keydiff", 10);
  EXPECT_THROW(ablation_figure(recording, {.runs = {"keydiff"}}), FileError) << "nothing to measure against";
}

using measures::HeadMeasures;

constexpr int kKeydiff = 1;

FakeRecording none_and_keydiff(std::int64_t n_tokens = 34, std::int64_t block_size = 8) {
  FakeRecording recording(2, 2, 2, 4, n_tokens, block_size);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.fill(8);
  return recording;
}

TEST(Diversity, EveryPointIsTheMedianOfWhatAnalyzeSaysAfterThatBlock) {
  const FakeRecording recording = none_and_keydiff();
  const Figure figure = diversity_figure(recording, {.runs = {"none", "keydiff"}});
  ASSERT_EQ(figure.panels.size(), 3U);
  constexpr std::array kValues{&HeadMeasures::log_volume_nats, &HeadMeasures::mean_pairwise_cosine,
                               &HeadMeasures::attention_mass_kept};
  for (std::size_t p = 0; p < kValues.size(); ++p) {
    const LineSeries& line = figure.panels[p].lines.at(kKeydiff);
    const BandSeries& band = figure.panels[p].bands.at(kKeydiff);
    EXPECT_THAT(line.x, ElementsAre(8, 16, 24, 32, 34));
    std::vector<double> values;
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head)
        values.push_back(
            *(measures::measure_head(recording, kKeydiff, layer, head, measures::Parts::all(), 2).*
              kValues.at(p)));
    const auto spread = analysis::quantiles(values, std::array{0.05, 0.5, 0.95});
    EXPECT_FLOAT_EQ(line.y[2], static_cast<float>(spread[1]));
    EXPECT_FLOAT_EQ(band.low[2], static_cast<float>(spread[0]));
    EXPECT_FLOAT_EQ(band.high[2], static_cast<float>(spread[2]));
  }
  EXPECT_THAT(figure.view.runs, ElementsAre("none", "keydiff"));
}

TEST(Diversity, WithoutAFullCacheThereIsNoAttentionToKeep) {
  FakeRecording recording(1, 1, 1, 4, 16, 8);
  recording.add_run("keydiff", 6);
  recording.fill(1);
  EXPECT_EQ(diversity_figure(recording, {.runs = {"keydiff"}}).panels.size(), 2U);
}

TEST(Diversity, OfManyBlocksSomeAreMeasuredAndTheCaptionSaysSo) {
  FakeRecording recording = none_and_keydiff(300, 3);
  const Figure figure = diversity_figure(recording, {.runs = {"keydiff"}});
  const LineSeries& line = figure.panels.front().lines.front();
  EXPECT_EQ(line.x.size(), 16U);
  EXPECT_EQ(line.x.back(), 300) << "the end of the prompt is among them";
  EXPECT_THAT(figure.caption, HasSubstr("16 of 100 blocks"));
}

TEST(Diversity, ManyRunsHaveNoBands) {
  FakeRecording recording = none_and_keydiff();
  recording.add_run("sink", 10);
  recording.add_run("tova", 10);
  recording.fill(8);
  EXPECT_TRUE(diversity_figure(recording, {.runs = {"none", "keydiff", "sink", "tova"}})
                  .panels.front()
                  .bands.empty());
  EXPECT_EQ(diversity_figure(recording, {.runs = {"keydiff", "sink", "tova"}}).panels.front().bands.size(),
            3U);
}

TEST(Diversity, RefusesWhatIsNotThere) {
  FakeRecording recording = none_and_keydiff();
  EXPECT_THROW(diversity_figure(recording, {.runs = {"sink"}}), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(diversity_figure(recording, {.runs = {"none"}}), FileError);
}

using testing::IsEmpty;

TEST(Spread, IsABarFromTheFifthToTheNinetyFifthPercentileAndTheMedian) {
  std::vector<double> values(101);
  std::iota(values.begin(), values.end(), 0.0);
  values.push_back(std::numeric_limits<double>::quiet_NaN());  // left out
  SpreadSeries spread("keys", "keys", kBlue, Marker::kDisc);
  spread.add(3, values);
  Panel panel;
  std::move(spread).put_into(panel);
  ASSERT_EQ(panel.lines.size(), 1U);
  ASSERT_EQ(panel.points.size(), 1U);
  ASSERT_EQ(panel.lines[0].y.size(), 3U);
  EXPECT_EQ(panel.lines[0].y[0], 5);
  EXPECT_EQ(panel.lines[0].y[1], 95);
  EXPECT_TRUE(std::isnan(panel.lines[0].y[2])) << "the next bar is not joined to this one";
  EXPECT_THAT(panel.lines[0].x, ElementsAre(3, 3, 3));
  EXPECT_THAT(panel.points[0].x, ElementsAre(3));
  EXPECT_THAT(panel.points[0].y, ElementsAre(50));
  EXPECT_THAT(panel.lines[0].label, IsEmpty()) << "one legend entry is enough";
}

TEST(Spread, NothingIsDrawnOfNothing) {
  SpreadSeries spread("keys", "keys", kBlue, Marker::kDisc);
  spread.add(0, std::vector<double>{});
  spread.add(1, std::vector<double>{std::numeric_limits<double>::infinity()});
  Panel panel;
  std::move(spread).put_into(panel);
  EXPECT_THAT(panel.points[0].x, IsEmpty());
}

}  // namespace

}  // namespace keyscope::figures

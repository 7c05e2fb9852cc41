#include "app/figures/diversity.hpp"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "analysis/quantiles.hpp"
#include "app/measures/head_measures.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kNone = 0, kKeydiff = 1;

FakeRecording two_runs(std::int64_t n_tokens = 34, std::int64_t block_size = 8) {
  FakeRecording recording(2, 2, 2, 4, n_tokens, block_size);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.fill(8);
  return recording;
}

TEST(Diversity, EveryPointIsTheMedianOfWhatAnalyzeSaysAfterThatBlock) {
  const FakeRecording recording = two_runs();
  const Figure figure = diversity_figure(recording, {{kNone, kKeydiff}});
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
            *(measures::measure_head(recording, kKeydiff, layer, head, {.at_block = 2}).*kValues.at(p)));
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
  EXPECT_EQ(diversity_figure(recording, {{0}}).panels.size(), 2U);
}

TEST(Diversity, OfManyBlocksSomeAreMeasuredAndTheCaptionSaysSo) {
  FakeRecording recording = two_runs(300, 3);
  const Figure figure = diversity_figure(recording, {{kKeydiff}});
  const LineSeries& line = figure.panels.front().lines.front();
  EXPECT_EQ(line.x.size(), 16U);
  EXPECT_EQ(line.x.back(), 300) << "the end of the prompt is among them";
  EXPECT_THAT(figure.caption, HasSubstr("16 of 100 blocks"));
}

TEST(Diversity, ManyRunsHaveNoBands) {
  FakeRecording recording = two_runs();
  const int sink = recording.add_run("sink", 10), tova = recording.add_run("tova", 10);
  recording.fill(8);
  EXPECT_TRUE(diversity_figure(recording, {{kNone, kKeydiff, sink, tova}}).panels.front().bands.empty());
  EXPECT_EQ(diversity_figure(recording, {{kKeydiff, sink, tova}}).panels.front().bands.size(), 3U);
}

TEST(Diversity, RefusesWhatIsNotThere) {
  FakeRecording recording = two_runs();
  EXPECT_THROW(diversity_figure(recording, {{2}}), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(diversity_figure(recording, {{kNone}}), FileError);
}

}  // namespace
}  // namespace keyscope::figures

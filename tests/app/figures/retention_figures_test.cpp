#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/figure_builders.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/retained_sets.hpp"
#include "base/errors.hpp"
#include "tests/app/figures/made_figures.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Two runs of four blocks of eight tokens.
FakeRecording timed() {
  FakeRecording recording(1, 2, 1, 4, 32, 8);
  recording.add_run("keydiff", 8);
  recording.add_run("none", 0);
  recording.edit_info().runs[0].block_ms = {4, 5, 5, 5};
  recording.edit_info().runs[1].block_ms = {4, 6, 8, 10};
  return recording;
}

TEST(BlockTimes, EveryRunIsALineOverThePrompt) {
  const FakeRecording recording = timed();
  EXPECT_TRUE(has_block_times(*recording.info()));
  const Figure figure = block_times_figure(recording, {.runs = {"keydiff", "none"}});
  ASSERT_EQ(figure.panels.size(), 1U);
  const auto& lines = figure.panels.front().lines;
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].label, "keydiff, N = 8");
  EXPECT_EQ(lines[1].label, "none");
  EXPECT_THAT(lines[1].x, ElementsAre(0, 8, 16, 24));
  EXPECT_THAT(lines[1].y, ElementsAre(4, 6, 8, 10));
  EXPECT_THAT(figure.view.runs, ElementsAre("keydiff", "none"));
}

TEST(BlockTimes, TokensGeneratedAfterwardsAreLeftOut) {
  FakeRecording recording = timed();
  recording::RunInfo& run = recording.edit_info().runs[0];
  run.block_start.push_back(32);
  run.block_ms.push_back(1);
  run.blocks_done = 5;
  EXPECT_EQ(block_times_figure(recording, {.runs = {"keydiff"}}).panels.front().lines.front().x.size(), 4U);
}

TEST(BlockTimes, WhatIsNotThereIsSaid) {
  FakeRecording recording = timed();
  EXPECT_THROW(block_times_figure(recording, {.runs = {"sink"}}), UsageError);
  for (auto& run : recording.edit_info().runs) run.block_ms.assign(4, kNaN);
  EXPECT_FALSE(has_block_times(*recording.info()));
  try {
    block_times_figure(recording, {.runs = {"keydiff", "none"}});
    FAIL() << "no block has a time";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--schedule block"));
  }
}

FakeRecording three_runs() {
  FakeRecording recording(2, 2, 2, 4, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.add_run("sink", 10);
  recording.fill(2);
  return recording;
}

TEST(Overlap, CellsAreTheMeasures) {
  const FakeRecording recording = three_runs();
  const Figure figure = overlap_figure(recording, {.runs = {"none", "keydiff", "sink"}});
  const auto overlap = measures::measure_overlap(recording, {0, 1, 2});
  EXPECT_EQ(figure.panels.at(0).heatmap->values, overlap.mean.cast<float>());
  EXPECT_FLOAT_EQ(figure.panels[0].heatmap->values(0, 1), 0.25F) << "10 of 40, whatever was chosen";
  EXPECT_THAT(figure.panels[0].x.categories, ElementsAre("none", "keydiff", "sink"));
  const Panel& layers = figure.panels.at(1);
  EXPECT_THAT(layers.y.categories, ElementsAre("keydiff – sink"))
      << "the full cache's overlap is N/n everywhere";
  for (int layer = 0; layer < 2; ++layer)
    EXPECT_FLOAT_EQ(layers.heatmap->values(0, layer), static_cast<float>(overlap.per_layer[layer](1, 2)));
}

TEST(Overlap, TheCaptionSaysWhatChanceWouldGive) {
  EXPECT_THAT(overlap_figure(three_runs(), {.runs = {"keydiff", "sink"}}).caption,
              HasSubstr("overlap by 0.15"))
      << "the sum of C(10, i) C(30, 10 - i) / C(40, 10) i / (20 - i), 0.1484; not 10 / 70 = 0.1429";
}

TEST(Overlap, OfSetsOfUnlikeSizesTheCaptionSaysNothingOfChance) {
  const FigureRequest request{.runs = {"keydiff", "sink"}};
  FakeRecording own_budgets = three_runs();
  own_budgets.edit_info().runs[1].plan.budgets = {10, 5, 5, 10};
  EXPECT_THAT(overlap_figure(own_budgets, request).caption, Not(HasSubstr("at random")));
  FakeRecording pages = three_runs();
  pages.edit_info().runs[2].plan.parameters = R"({"granularity": "page:4"})";
  EXPECT_THAT(overlap_figure(pages, request).caption, Not(HasSubstr("at random")));
}

TEST(Overlap, RefusesWhatIsNotThere) {
  EXPECT_THROW(overlap_figure(three_runs(), {.runs = {"none", "tova"}}), UsageError);
  EXPECT_THROW(overlap_figure(three_runs(), {.runs = {"none", "keydiff"}, .block = 5}), UsageError);
  EXPECT_EQ(overlap_figure(three_runs(), {.runs = {"none", "keydiff"}}).panels.size(), 1U)
      << "one evicting run makes no pair";
}

// One head, so that the median is that head's number.
FakeRecording three_runs_of_one_head() {
  FakeRecording recording(1, 1, 1, 4, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.add_run("sink", 10);
  recording.fill(2);
  return recording;
}

TEST(RelaxationGapFigure, ObjectivesAreThoseOfTheMeasures) {
  const FakeRecording recording = three_runs_of_one_head();
  const Figure figure = relaxation_gap_figure(recording, {.runs = {"none", "keydiff", "sink"}});
  const Panel& left = figure.panels.at(0);
  EXPECT_THAT(left.x.categories, ElementsAre("keydiff", "sink")) << "the full cache has no choice to make";
  for (const int run : {1, 2}) {
    const auto at = static_cast<std::size_t>(run - 1);
    EXPECT_FLOAT_EQ(series(left, "retained").y[at],
                    static_cast<float>(*measures::measure_head(recording, run, 0, 0).cosine_objective / 100));
    const auto objective = measures::measure_set_objectives(recording, run).front();
    EXPECT_FLOAT_EQ(series(left, "best").y[at], static_cast<float>(objective.best / 100));
    EXPECT_FLOAT_EQ(series(left, "at_once").y[at], static_cast<float>(objective.at_once / 100));
    EXPECT_FLOAT_EQ(series(figure.panels.at(1), "gap").y[at], static_cast<float>(objective.gap()));
  }
}

TEST(RelaxationGapFigure, SaysHowManyHeadsItShows) {
  EXPECT_THAT(relaxation_gap_figure(three_runs_of_one_head(), {.runs = {"keydiff"}}).panels.front().note,
              "1 head");
  // 40 tokens of 2,000,000 dimensions: a search sweep costs 8·10⁷ products, and 2·10⁹ are 25 heads.
  FakeRecording recording(30, 1, 1, 4, 40, 8);
  recording.add_run("keydiff", 10);
  recording.fill(2);
  recording.edit_info().model.head_dim = 2'000'000;
  EXPECT_THAT(relaxation_gap_figure(recording, {.runs = {"keydiff"}}).panels.front().note,
              HasSubstr("25 of 30 heads"));
}

TEST(RelaxationGapFigure, RefusesWhatIsNotThere) {
  FakeRecording recording = three_runs_of_one_head();
  EXPECT_THROW(relaxation_gap_figure(recording, {.runs = {"none"}}), FileError) << "nothing evicts";
  EXPECT_THROW(relaxation_gap_figure(recording, {.runs = {"tova"}}), UsageError);
  EXPECT_THROW(relaxation_gap_figure(recording, {.runs = {"keydiff"}, .block = 9}), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(relaxation_gap_figure(recording, {.runs = {"keydiff"}}), FileError);
}

}  // namespace

}  // namespace keyscope::figures

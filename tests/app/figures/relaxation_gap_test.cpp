#include "app/figures/relaxation_gap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/retained_sets.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const PointSeries& series(const Panel& panel, const std::string& id) {
  for (const PointSeries& each : panel.points)
    if (each.id == id) return each;
  throw InvalidInput("no series " + id);
}

// One head, so that the median is that head's number.
FakeRecording three_runs() {
  FakeRecording recording(1, 1, 1, 4, 40, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 10);
  recording.add_run("sink", 10);
  recording.fill(2);
  return recording;
}

TEST(RelaxationGapFigure, ObjectivesAreThoseOfTheMeasures) {
  const FakeRecording recording = three_runs();
  const Figure figure = relaxation_gap_figure(recording, {{0, 1, 2}, -1});
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
  EXPECT_THAT(relaxation_gap_figure(three_runs(), {{1}, -1}).panels.front().note, "1 head");
  // 40 tokens of 2,000,000 dimensions: a search sweep costs 8·10⁷ products, and 2·10⁹ are 25 heads.
  FakeRecording recording(30, 1, 1, 4, 40, 8);
  recording.add_run("keydiff", 10);
  recording.fill(2);
  recording.edit_info().model.head_dim = 2'000'000;
  EXPECT_THAT(relaxation_gap_figure(recording, {{0}, -1}).panels.front().note, HasSubstr("25 of 30 heads"));
}

TEST(RelaxationGapFigure, RefusesWhatIsNotThere) {
  FakeRecording recording = three_runs();
  EXPECT_THROW(relaxation_gap_figure(recording, {{0}, -1}), FileError) << "nothing evicts";
  EXPECT_THROW(relaxation_gap_figure(recording, {{3}, -1}), UsageError);
  EXPECT_THROW(relaxation_gap_figure(recording, {{1}, 9}), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(relaxation_gap_figure(recording, {{1}, -1}), FileError);
}

}  // namespace
}  // namespace keyscope::figures

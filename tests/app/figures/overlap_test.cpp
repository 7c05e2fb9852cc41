#include "app/figures/overlap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/measures/retained_overlap.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  const Figure figure = overlap_figure(recording, {{0, 1, 2}, -1});
  const auto overlap = measures::measure_overlap(recording, {0, 1, 2});
  EXPECT_EQ(figure.panels.at(0).heatmap->values, overlap.mean.cast<float>());
  EXPECT_FLOAT_EQ(figure.panels[0].heatmap->values(0, 1), 0.25F) << "10 of 40, whatever was chosen";
  EXPECT_THAT(figure.panels[0].x.categories, ElementsAre("none", "keydiff", "sink"));
  const Panel& layers = figure.panels.at(1);
  EXPECT_THAT(layers.y.categories, ElementsAre("keydiff – sink"))
      << "the full cache's overlap is N/n everywhere";
  for (int layer = 0; layer < 2; ++layer)
    EXPECT_FLOAT_EQ(layers.heatmap->values(0, layer),
                    static_cast<float>(overlap.per_layer[static_cast<std::size_t>(layer)](1, 2)));
}

TEST(Overlap, TheCaptionSaysWhatChanceWouldGive) {
  EXPECT_THAT(overlap_figure(three_runs(), {{1, 2}, -1}).caption, HasSubstr("overlap by 0.15"))
      << "the sum of C(10, i) C(30, 10 - i) / C(40, 10) i / (20 - i), 0.1484; not 10 / 70 = 0.1429";
}

TEST(Overlap, RefusesWhatIsNotThere) {
  EXPECT_THROW(overlap_figure(three_runs(), {{0, 3}, -1}), UsageError);
  EXPECT_THROW(overlap_figure(three_runs(), {{0, 1}, 5}), UsageError);
  EXPECT_EQ(overlap_figure(three_runs(), {{0, 1}, -1}).panels.size(), 1U) << "one evicting run makes no pair";
}

}  // namespace
}  // namespace keyscope::figures

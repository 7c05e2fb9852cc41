#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/measures/head_measures.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"
#include "tests/app/figures/made_figures.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;

FakeRecording one_run() {
  FakeRecording recording(3, 4, 2, 4, 40, 8);
  recording.add_run("none", 0);
  recording.fill(3);
  return recording;
}

TEST(Bounds, TheLeastSlackOfALayerIsTheLeastOfItsHeads) {
  const FakeRecording recording = one_run();
  const Figure figure = bounds_figure(recording, {});
  const PointSeries& least = series(figure.panels.front(), "theorem_paper_least");
  const PointSeries& exact = series(figure.panels.front(), "theorem_exact_least");
  ASSERT_EQ(least.y.size(), 3U);
  for (int layer = 0; layer < 3; ++layer) {
    const auto a = measures::measure_head(recording, 0, layer, 0),
               b = measures::measure_head(recording, 0, layer, 1);
    const auto at = static_cast<std::size_t>(layer);
    EXPECT_FLOAT_EQ(least.y[at], static_cast<float>(std::min(*a.bound_min_slack, *b.bound_min_slack)));
    EXPECT_FLOAT_EQ(exact.y[at],
                    static_cast<float>(std::min(*a.bound_min_slack_exact, *b.bound_min_slack_exact)));
  }
}

TEST(Bounds, TheCaptionCountsWhatAnalyzeCounts) {
  const FakeRecording recording = one_run();
  std::int64_t pairs = 0;
  for (int layer = 0; layer < 3; ++layer)
    for (int head = 0; head < 2; ++head)
      pairs += *measures::measure_head(recording, 0, layer, head).bound_pairs;
  constexpr std::int64_t kKeys = 40, kQueries = 80, kHeads = 6, all = kHeads * kKeys * kQueries;
  EXPECT_THAT(bounds_figure(recording, {}).caption,
              HasSubstr(fmt::format("α < 0 < β: {} of {} pairs ({:.1f} %), 0 violations", format_count(pairs),
                                    format_count(all), 100.0 * double(pairs) / double(all))));
}

TEST(Bounds, AHistogramHoldsAllPairsButItsTail) {
  const Figure figure = bounds_figure(one_run(), {});
  for (const std::size_t p : {1U, 3U})
    for (const LineSeries& line : figure.panels.at(p).lines) {
      ASSERT_EQ(line.y.size(), 120U) << "two ends for each of 60 bins";
      EXPECT_NEAR(std::accumulate(line.y.begin(), line.y.end(), 0.0) / 2, 100, 0.5) << line.id;
    }
}

TEST(Bounds, NeedsKeysAndQueries) {
  FakeRecording recording = one_run();
  EXPECT_THROW(bounds_figure(recording, {.runs = {"sink"}}), UsageError);
  recording.edit_info().queries = false;
  EXPECT_THROW(bounds_figure(recording, {}), FileError);
}

}  // namespace
}  // namespace keyscope::figures

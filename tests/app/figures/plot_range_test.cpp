#include "app/figures/plot_range.hpp"

#include <gtest/gtest.h>

namespace keyscope::figures {
namespace {

Panel heatmap_of(int n_rows, int n_columns, double first = 0) {
  Panel panel;
  Heatmap& heatmap = panel.heatmap.emplace();
  heatmap.values = RowMatrixF::Zero(n_rows, n_columns);
  heatmap.x_first = heatmap.y_first = first;
  return panel;
}

Panel points_of(std::vector<float> x, std::vector<float> y) {
  Panel panel;
  PointSeries& series = panel.points.emplace_back();
  series.x = std::move(x);
  series.y = std::move(y);
  return panel;
}

void expect_range(const Range& range, double low, double high) {
  EXPECT_DOUBLE_EQ(range.low, low);
  EXPECT_DOUBLE_EQ(range.high, high);
}

TEST(DataRanges, OfAHeatmapRunDownwards) {
  const PanelRanges ranges = data_ranges(heatmap_of(3, 5));
  expect_range(ranges.x, 0, 5);
  expect_range(ranges.y, 3, 0);
}

TEST(SharedDataRanges, CoverThePointsOfAllPanels) {
  const PanelRanges ranges = shared_data_ranges({points_of({0}, {0}), points_of({100}, {-100})});
  expect_range(ranges.x, -6, 106);
  expect_range(ranges.y, -106, 6);
}

TEST(SharedDataRanges, OfHeatmapsAreAllTheirCellsAndRunDownwards) {
  const PanelRanges ranges = shared_data_ranges({heatmap_of(3, 5), heatmap_of(8, 2), heatmap_of(1, 1, -2)});
  expect_range(ranges.x, -2, 5);
  expect_range(ranges.y, 8, -2);
}

TEST(SharedDataRanges, OfOneHeatmapAreItsOwn) {
  const Panel panel = heatmap_of(3, 5);
  const PanelRanges shared = shared_data_ranges({panel}), own = data_ranges(panel);
  expect_range(shared.x, own.x.low, own.x.high);
  expect_range(shared.y, own.y.low, own.y.high);
}

TEST(SharedDataRanges, PointsBesideAHeatmapLieInItsDirection) {
  const PanelRanges ranges = shared_data_ranges({heatmap_of(10, 10), points_of({0, 100}, {0, 100})});
  expect_range(ranges.x, -6, 106);
  expect_range(ranges.y, 106, -6);
}

}  // namespace
}  // namespace keyscope::figures

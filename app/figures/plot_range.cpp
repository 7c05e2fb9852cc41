#include "app/figures/plot_range.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyscope::figures {
namespace {

constexpr double kMargin = 0.06;  // of the data's width, on either side

struct Extremes {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void include(const std::vector<float>& values) {
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, static_cast<double>(value));
      high = std::max(high, static_cast<double>(value));
    }
  }

  Range range() const {
    if (low > high) return {-1, 1};
    const double least = std::max(std::abs(low), std::abs(high)) * 1e-6;
    if (high - low <= least) {
      const double room = std::max(0.5 * std::abs(low), 1e-3);
      return low == 0 ? Range{-1, 1} : Range{low - room, high + room};
    }
    return {low - kMargin * (high - low), high + kMargin * (high - low)};
  }
};

// Half a category on either side of the first and the last.
void include_categories(Extremes& extremes, const Axis& axis) {
  if (axis.categories.empty()) return;
  extremes.low = std::min(extremes.low, -0.4);
  extremes.high = std::max(extremes.high, static_cast<double>(axis.categories.size()) - 0.6);
}

struct PanelExtremes {
  Extremes x, y, z;

  void include(const Panel& panel) {
    for (const PointSeries& series : panel.points)
      x.include(series.x), y.include(series.y), z.include(series.z);
    for (const LineSeries& series : panel.lines) x.include(series.x), y.include(series.y);
    for (const BandSeries& series : panel.bands)
      x.include(series.x), y.include(series.low), y.include(series.high);
    include_categories(x, panel.x);
    include_categories(y, panel.y);
  }

  PanelRanges ranges() const { return {x.range(), y.range(), z.range()}; }
};

// First to last cell, row 0 at the top: low is what lies at the bottom and at the left.
PanelRanges heatmap_ranges(const Heatmap& heatmap) {
  if (heatmap.values.size() == 0) return {{0, 1}, {1, 0}, {}};
  return {{heatmap.x_first, heatmap.x_last()}, {heatmap.y_last(), heatmap.y_first}, {}};
}

void widen(Range& range, double factor) {
  const double middle = (range.low + range.high) / 2, half = range.width() / 2 * factor;
  range = {middle - half, middle + half};
}

void unite(Range& all, const Range& one) {
  all.low = std::min({all.low, one.low, one.high});
  all.high = std::max({all.high, one.low, one.high});
}

// All cells of all heatmaps, and the data of the panels beside them; y runs downwards, as in every heatmap.
PanelRanges shared_with_heatmaps(const std::vector<Panel>& panels) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  Range x{kNone, -kNone}, y{kNone, -kNone};
  for (const Panel& panel : panels) {
    const PanelRanges own = data_ranges(panel);
    unite(x, own.x);
    unite(y, own.y);
  }
  return {x, {y.high, y.low}, {}};
}

}  // namespace

PanelRanges data_ranges(const Panel& panel) {
  if (panel.heatmap) return heatmap_ranges(*panel.heatmap);
  PanelExtremes extremes;
  extremes.include(panel);
  return extremes.ranges();
}

PanelRanges shared_data_ranges(const std::vector<Panel>& panels) {
  if (std::ranges::any_of(panels, [](const Panel& panel) { return panel.heatmap.has_value(); }))
    return shared_with_heatmaps(panels);
  PanelExtremes extremes;
  for (const Panel& panel : panels) extremes.include(panel);
  return extremes.ranges();
}

void equalize(PanelRanges& ranges, double width, double height) {
  const double per_x = std::abs(ranges.x.width()) / width, per_y = std::abs(ranges.y.width()) / height;
  if (!(per_x > 0) || !(per_y > 0)) return;
  if (per_x < per_y)
    widen(ranges.x, per_y / per_x);
  else
    widen(ranges.y, per_x / per_y);
}

}  // namespace keyscope::figures

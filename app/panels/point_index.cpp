#include "app/panels/point_index.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyscope::window {
namespace {

int cell_of(double value, double low, double high, int n_cells) {
  if (!(high > low)) return 0;
  const double cell = (value - low) / (high - low) * n_cells;
  return static_cast<int>(std::clamp(cell, 0.0, static_cast<double>(n_cells - 1)));
}

}  // namespace

int PointIndex::column(double x) const { return cell_of(x, extent_.x_low, extent_.x_high, kCells); }
int PointIndex::row(double y) const { return cell_of(y, extent_.y_low, extent_.y_high, kCells); }

void PointIndex::build(const figures::Panel& panel, const std::vector<std::string>& hidden) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  extent_ = {kFar, -kFar, kFar, -kFar};
  std::vector<Entry> all;
  for (const figures::PointSeries& series : panel.points) {
    if (series.token.empty() || std::ranges::find(hidden, series.id) != hidden.end()) continue;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
      all.push_back({series.x[i], series.y[i], series.token[i], static_cast<std::int32_t>(all.size())});
      extent_.x_low = std::min<double>(extent_.x_low, series.x[i]);
      extent_.x_high = std::max<double>(extent_.x_high, series.x[i]);
      extent_.y_low = std::min<double>(extent_.y_low, series.y[i]);
      extent_.y_high = std::max<double>(extent_.y_high, series.y[i]);
    }
  }
  // Counting sort by cell.
  start_.assign(kCells * kCells + 1, 0);
  const auto cell = [&](const Entry& entry) {
    return static_cast<std::size_t>(row(entry.y)) * kCells + static_cast<std::size_t>(column(entry.x));
  };
  for (const Entry& entry : all) ++start_[cell(entry) + 1];
  for (std::size_t i = 1; i < start_.size(); ++i) start_[i] += start_[i - 1];
  entries_.resize(all.size());
  std::vector<std::uint32_t> next(start_.begin(), start_.end() - 1);
  for (const Entry& entry : all) entries_[next[cell(entry)]++] = entry;
}

std::optional<std::int32_t> PointIndex::nearest(const PlotView& view, Pixel at, float radius_px) const {
  if (entries_.empty()) return std::nullopt;
  const PlotPoint low = view.to_plane({at.x - radius_px, at.y + radius_px});
  const PlotPoint high = view.to_plane({at.x + radius_px, at.y - radius_px});
  const Entry* best = nullptr;
  double best_distance = static_cast<double>(radius_px) * radius_px;
  for (int r = row(low.y); r <= row(high.y); ++r) {
    const std::size_t line = static_cast<std::size_t>(r) * kCells;
    const std::uint32_t first = start_[line + static_cast<std::size_t>(column(low.x))];
    const std::uint32_t last = start_[line + static_cast<std::size_t>(column(high.x)) + 1];
    for (std::uint32_t i = first; i < last; ++i) {
      const Entry& entry = entries_[i];
      const Pixel pixel = view.to_pixel(entry.x, entry.y);
      const double dx = pixel.x - at.x;
      const double dy = pixel.y - at.y;
      const double distance = dx * dx + dy * dy;
      const bool on_top = distance == best_distance && best != nullptr && entry.order > best->order;
      if (distance > best_distance || (distance == best_distance && best != nullptr && !on_top)) continue;
      best_distance = distance;
      best = &entry;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(best->token);
}

}  // namespace keyscope::window

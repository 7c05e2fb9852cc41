#include "app/display/plot_view.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyscope::window {

namespace {

// Pixels per unit that show `length` in `pixels`; anything serves for a length of zero.
double fitting_scale(double length, double pixels, double margin) {
  const double usable = std::max(1.0, pixels * (1 - 2 * margin));
  return length > 0 && std::isfinite(length) ? usable / length : 0;
}

}  // namespace

bool PlotView::set_frame(float left, float top, float width, float height) {
  width = std::max(1.0F, width);
  height = std::max(1.0F, height);
  if (left == left_ && top == top_ && width == width_ && height == height_) return false;
  left_ = left;
  top_ = top;
  width_ = width;
  height_ = height;
  ++revision_;
  if (!moved_) show_extent();
  return true;
}

void PlotView::set_downwards(bool downwards) {
  if (downwards_ != downwards) ++revision_;
  downwards_ = downwards;
}

void PlotView::fit(const figures::Extent& extent, bool equal_aspect, double margin) {
  extent_ = extent;
  margin_ = margin;
  equal_aspect_ = equal_aspect;
  moved_ = false;
  show_extent();
}

void PlotView::show_extent() {
  ++revision_;
  if (extent_.empty()) return;
  centre_x_ = 0.5 * (extent_.x_low + extent_.x_high);
  centre_y_ = 0.5 * (extent_.y_low + extent_.y_high);
  scale_x_ = fitting_scale(extent_.x_high - extent_.x_low, width_, margin_);
  scale_y_ = fitting_scale(extent_.y_high - extent_.y_low, height_, margin_);
  if (scale_x_ <= 0) scale_x_ = scale_y_;
  if (scale_y_ <= 0) scale_y_ = scale_x_;
  if (scale_x_ <= 0) scale_x_ = scale_y_ = 100;  // a single point
  if (equal_aspect_) scale_x_ = scale_y_ = std::min(scale_x_, scale_y_);
}

void PlotView::follow(const PlotView& other) {
  const bool same = centre_x_ == other.centre_x_ && centre_y_ == other.centre_y_ &&
                    scale_x_ == other.scale_x_ && scale_y_ == other.scale_y_ &&
                    downwards_ == other.downwards_;
  extent_ = other.extent_;
  margin_ = other.margin_;
  downwards_ = other.downwards_;
  equal_aspect_ = other.equal_aspect_;
  moved_ = other.moved_;
  if (same) return;
  centre_x_ = other.centre_x_;
  centre_y_ = other.centre_y_;
  scale_x_ = other.scale_x_;
  scale_y_ = other.scale_y_;
  ++revision_;
}

void PlotView::show(const figures::Extent& limits) {
  const double width = limits.x_high - limits.x_low, height = limits.y_high - limits.y_low;
  if (!(width > 0) || !(height > 0)) return;
  centre_x_ = 0.5 * (limits.x_low + limits.x_high);
  centre_y_ = 0.5 * (limits.y_low + limits.y_high);
  scale_x_ = width_ / width;
  scale_y_ = height_ / height;
  moved_ = true;
  ++revision_;
}

figures::Extent PlotView::limits() const {
  const double x = 0.5 * width_ / scale_x_, y = 0.5 * height_ / scale_y_;
  return {centre_x_ - x, centre_x_ + x, centre_y_ - y, centre_y_ + y};
}

void PlotView::pan(float dx, float dy) {
  centre_x_ -= dx / scale_x_;
  centre_y_ += sign() * dy / scale_y_;
  moved_ = true;
  ++revision_;
}

void PlotView::zoom_at(Pixel at, double factor) {
  const PlotPoint before = to_plane(at);
  scale_x_ *= factor;
  scale_y_ *= factor;
  const PlotPoint after = to_plane(at);
  centre_x_ += before.x - after.x;
  centre_y_ += before.y - after.y;
  moved_ = true;
  ++revision_;
}

Pixel PlotView::to_pixel(double x, double y) const {
  return {static_cast<float>(left_ + 0.5 * width_ + (x - centre_x_) * scale_x_),
          static_cast<float>(top_ + 0.5 * height_ - sign() * (y - centre_y_) * scale_y_)};
}

PlotPoint PlotView::to_plane(Pixel at) const {
  return {centre_x_ + (at.x - left_ - 0.5 * width_) / scale_x_,
          centre_y_ - sign() * (at.y - top_ - 0.5 * height_) / scale_y_};
}

bool PlotView::contains(Pixel at) const {
  return at.x >= left_ && at.x < left_ + width_ && at.y >= top_ && at.y < top_ + height_;
}

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

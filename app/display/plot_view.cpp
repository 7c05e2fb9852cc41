#include "app/display/plot_view.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::window {
namespace {

constexpr double kMostZoom = 20'000;  // against the fitted view: float32 coordinates end about there
constexpr double kLeastZoom = 0.05;

// Pixels per unit that show `length` in `pixels`; anything serves for a length of zero.
double fitting_scale(double length, double pixels, double margin) {
  const double usable = std::max(1.0, pixels * (1 - 2 * margin));
  return length > 0 && std::isfinite(length) ? usable / length : 0;
}

}  // namespace

void PlotView::set_frame(float left, float top, float width, float height) {
  width = std::max(1.0F, width);
  height = std::max(1.0F, height);
  if (left == left_ && top == top_ && width == width_ && height == height_) return;
  left_ = left;
  top_ = top;
  width_ = width;
  height_ = height;
  ++revision_;
  if (!moved_) show_extent();
}

void PlotView::fit(const session::Extent& extent, bool equal_aspect, double margin) {
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
                    scale_x_ == other.scale_x_ && scale_y_ == other.scale_y_;
  extent_ = other.extent_;
  margin_ = other.margin_;
  equal_aspect_ = other.equal_aspect_;
  moved_ = other.moved_;
  if (same) return;
  centre_x_ = other.centre_x_;
  centre_y_ = other.centre_y_;
  scale_x_ = other.scale_x_;
  scale_y_ = other.scale_y_;
  ++revision_;
}

void PlotView::pan(float dx, float dy) {
  centre_x_ -= dx / scale_x_;
  centre_y_ += dy / scale_y_;
  moved_ = true;
  ++revision_;
}

void PlotView::zoom_at(Pixel at, double factor) {
  if (!(factor > 0)) return;
  const PlotPoint before = to_plane(at);
  scale_x_ *= factor;
  scale_y_ *= factor;
  clamp_scale();
  const PlotPoint after = to_plane(at);
  centre_x_ += before.x - after.x;
  centre_y_ += before.y - after.y;
  moved_ = true;
  ++revision_;
}

void PlotView::zoom_to(Pixel corner, Pixel opposite) {
  const PlotPoint a = to_plane(corner);
  const PlotPoint b = to_plane(opposite);
  const double width = std::abs(a.x - b.x);
  const double height = std::abs(a.y - b.y);
  if (!(width > 0) || !(height > 0)) return;
  centre_x_ = 0.5 * (a.x + b.x);
  centre_y_ = 0.5 * (a.y + b.y);
  scale_x_ = width_ / width;
  scale_y_ = height_ / height;
  if (equal_aspect_) scale_x_ = scale_y_ = std::min(scale_x_, scale_y_);
  clamp_scale();
  moved_ = true;
  ++revision_;
}

// Keeps the view where float32 coordinates still differ, and the data in sight.
void PlotView::clamp_scale() {
  if (extent_.empty()) return;
  const double longest = std::max(extent_.x_high - extent_.x_low, extent_.y_high - extent_.y_low);
  if (!(longest > 0)) return;
  const double fitted = std::max(width_, height_) / longest;
  scale_x_ = std::clamp(scale_x_, kLeastZoom * fitted, kMostZoom * fitted);
  scale_y_ = std::clamp(scale_y_, kLeastZoom * fitted, kMostZoom * fitted);
}

Pixel PlotView::to_pixel(double x, double y) const {
  return {static_cast<float>(left_ + 0.5 * width_ + (x - centre_x_) * scale_x_),
          static_cast<float>(top_ + 0.5 * height_ - (y - centre_y_) * scale_y_)};
}

PlotPoint PlotView::to_plane(Pixel at) const {
  return {centre_x_ + (at.x - left_ - 0.5 * width_) / scale_x_,
          centre_y_ - (at.y - top_ - 0.5 * height_) / scale_y_};
}

bool PlotView::contains(Pixel at) const {
  return at.x >= left_ && at.x < left_ + width_ && at.y >= top_ && at.y < top_ + height_;
}

}  // namespace keyscope::window

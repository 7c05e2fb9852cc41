#include "app/display/plot_view.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

namespace {

constexpr float kDragThresholdPx = 4;
constexpr float kTrailStepPx = 3;  // of an outline: what is nearer adds nothing
constexpr double kWheelFactor = 1.18;

Pixel to_pixel(ImVec2 at) { return {at.x, at.y}; }

float distance(Pixel a, Pixel b) { return std::hypot(a.x - b.x, a.y - b.y); }

}  // namespace

void PlotMouse::drag(const DrawContext& context, PlotView& view, const PlotAbilities& abilities,
                     Outcome& outcome) {
  const ImGuiIO& io = ImGui::GetIO();
  for (const int button : {ImGuiMouseButton_Left, ImGuiMouseButton_Middle}) {
    if (!ImGui::IsItemActive() || !ImGui::IsMouseDragging(button, context.px(kDragThresholdPx))) continue;
    if (!dragged_) turning_ = abilities.turns && button == ImGuiMouseButton_Left && !io.KeyShift;
    // By whole pixels, also where the mouse moves by fractions: most of the picture can then be kept.
    const Pixel moved{std::round(io.MousePos.x - io.MouseClickedPos[button].x),
                      std::round(io.MousePos.y - io.MouseClickedPos[button].y)};
    const Pixel before = dragged_.value_or(Pixel{});
    const Pixel step{moved.x - before.x, moved.y - before.y};
    dragged_ = moved;
    if (turning_)
      outcome.turned = step;
    else
      view.pan(step.x, step.y);
    return;
  }
}

void PlotMouse::draw_with_tool(const DrawContext& context, PlotView& view, const PlotAbilities& abilities,
                               Outcome& outcome) {
  const ImGuiIO& io = ImGui::GetIO();
  const Pixel mouse = to_pixel(io.MousePos);
  const bool drawing =
      ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Right, context.px(kDragThresholdPx));
  if (drawing && tool_ == Tool::kNone) {
    tool_ = io.KeyCtrl || !abilities.selects ? Tool::kZoom : io.KeyShift ? Tool::kOutline : Tool::kBox;
    trail_ = {to_pixel(io.MouseClickedPos[ImGuiMouseButton_Right])};
  }
  if (tool_ == Tool::kNone) {
    outcome.menu = ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right);
    return;
  }
  if (tool_ == Tool::kOutline && distance(mouse, trail_.back()) >= context.px(kTrailStepPx))
    trail_.push_back(mouse);
  if (io.MouseDown[ImGuiMouseButton_Right]) return;
  const Pixel from = trail_.front();
  if (tool_ == Tool::kZoom) view.zoom_to(from, mouse);
  if (tool_ == Tool::kBox) outcome.outline = {from, {mouse.x, from.y}, mouse, {from.x, mouse.y}};
  if (tool_ == Tool::kOutline) outcome.outline = trail_;
  tool_ = Tool::kNone;
}

PlotMouse::Outcome PlotMouse::handle(const DrawContext& context, PlotView& view,
                                     const PlotAbilities& abilities) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool hovered = ImGui::IsItemHovered();
  Outcome outcome;
  if (hovered && io.MouseWheel != 0)
    view.zoom_at(to_pixel(io.MousePos), std::pow(kWheelFactor, io.MouseWheel));
  outcome.fit = hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  drag(context, view, abilities, outcome);
  draw_with_tool(context, view, abilities, outcome);

  const bool held = io.MouseDown[ImGuiMouseButton_Left] || io.MouseDown[ImGuiMouseButton_Middle];
  if (hovered && !(dragged_ && held) && tool_ == Tool::kNone) {
    outcome.over = to_pixel(io.MousePos);
    outcome.clicked = ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged_;
  }
  if (!held) dragged_.reset();
  return outcome;
}

void PlotMouse::draw(const DrawContext& context) const {
  if (tool_ == Tool::kNone) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 from(trail_.front().x, trail_.front().y), mouse = ImGui::GetMousePos();
  if (tool_ != Tool::kOutline) {
    list.AddRectFilled(from, mouse, with_alpha(context.theme.accent, 0.15F));
    list.AddRect(from, mouse, context.theme.accent);
    return;
  }
  for (const Pixel& at : trail_) list.PathLineTo({at.x, at.y});
  list.PathLineTo(mouse);
  list.PathStroke(context.theme.accent, ImDrawFlags_Closed, context.px(1.5F));
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

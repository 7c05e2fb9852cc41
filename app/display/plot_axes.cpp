#include "app/display/plot_axes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <implot.h>

#include "app/figures/scales.hpp"

namespace keyscope::window {

namespace {

constexpr float kTreePx = 56, kMostTreeShare = 0.16F;  // of the plot's height
constexpr float kOrderBarPx = 7, kOrderGapPx = 3;
constexpr float kLeastTreePx = 16;
constexpr float kLeastBracketPx = 1.5F;  // narrower ones cannot be told apart

// The height that the margin ends at: of the highest bracket that lies in sight as a whole, so that the tree
// of few tokens is as legible as that of all; what is higher leads out of sight.
double highest_in_sight(const std::vector<figures::Bracket>& brackets, const PlotView& view) {
  double highest = 0;
  for (const figures::Bracket& bracket : brackets)
    if (bracket.left >= view.limits().x_low && bracket.right <= view.limits().x_high)
      highest = std::max(highest, bracket.height);
  return highest;
}

}  // namespace

void OrderMargin::set(const figures::Panel& panel) {
  brackets_.clear();
  runs_.clear();
  if (!panel.order) return;
  brackets_ = figures::brackets_of(*panel.order);
  runs_ = figures::retention_runs(*panel.order);
}

float OrderMargin::height(const DrawContext& context, float plot_height) const {
  const float bars = runs_.empty() ? 0 : context.px(kOrderBarPx + kOrderGapPx);
  const float tree = std::min(context.px(kTreePx), kMostTreeShare * plot_height);
  const bool has_tree = !brackets_.empty() && tree >= context.px(kLeastTreePx);
  return bars + (has_tree ? tree + context.px(kOrderGapPx) : 0);
}

void OrderMargin::draw_tree(const DrawContext& context, const PlotView& view, float top, float bottom) const {
  const double highest = highest_in_sight(brackets_, view);
  if (!(highest > 0)) return;
  const auto x_of = [&](double place) { return view.to_pixel(place, 0).x; };
  const auto y_of = [&](double height) {
    return bottom - static_cast<float>(height / highest) * (bottom - top);
  };
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 ink = with_alpha(context.theme.dim, 0.8F);
  for (const figures::Bracket& bracket : brackets_) {
    const float left = x_of(bracket.left), right = x_of(bracket.right), y = y_of(bracket.height);
    if (right < view.left() || left > view.left() + view.width()) continue;
    if (right - left < kLeastBracketPx) continue;
    if (y >= top) list.AddLine({left, y}, {right, y}, ink);
    list.AddLine({left, y}, {left, y_of(bracket.left_height)}, ink);
    list.AddLine({right, y}, {right, y_of(bracket.right_height)}, ink);
  }
}

void OrderMargin::draw(const DrawContext& context, const PlotView& view, float height) const {
  if (height <= 0) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float gap = context.px(kOrderGapPx), left = view.left(), right = view.left() + view.width();
  const float top = view.top() - height;
  float bottom = view.top() - gap;
  list.PushClipRect({left, top}, {right, view.top()}, true);
  for (const figures::RetentionRun& run : runs_) {
    const float from = view.to_pixel(static_cast<double>(run.first), 0).x,
                to = view.to_pixel(static_cast<double>(run.last), 0).x;
    const float bar = context.px(run.retained ? kOrderBarPx : kOrderBarPx / 2);
    const figures::Colour colour = run.retained ? figures::kBlue : figures::kOrange;
    if (to > left && from < right)
      list.AddRectFilled({from, bottom - bar}, {to, bottom}, ink_colour(context.theme, colour));
  }
  if (!runs_.empty()) bottom -= context.px(kOrderBarPx) + gap;
  if (!brackets_.empty() && bottom - top >= context.px(kLeastTreePx)) draw_tree(context, view, top, bottom);
  list.PopClipRect();
}

namespace {

constexpr float kLabelGapPx = 34, kTickLabelGapPx = 10;
constexpr int kEdgeTicks = 4;
constexpr float kEdgePx = 3;

// By three bits, as BoxFrame has them.
std::array<figures::Turned, 8> corners_of(const figures::SpaceBox& box, const figures::Orbit& orbit) {
  std::array<figures::Turned, 8> corners;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const auto end = [&](std::size_t axis) { return (i >> axis & 1U) != 0 ? box.high[axis] : box.low[axis]; };
    corners[i] = box.turned(orbit, end(0), end(1), end(2));
  }
  return corners;
}

// Beside an edge at a share of its length, on the side away from the middle of the box, and inside the plot;
// nothing where another text is. Returns where it stands.
Rect write_at_edge(const DrawContext& context, const PlotView& view, const Pixel& a, const Pixel& b,
                   float share, float gap, ImU32 colour, const std::string& label, const Rect& taken = {}) {
  const Pixel middle = view.to_pixel(0, 0);
  const float x = std::lerp(a.x, b.x, share), y = std::lerp(a.y, b.y, share);
  const float away_x = 0.5F * (a.x + b.x) - middle.x, away_y = 0.5F * (a.y + b.y) - middle.y;
  const float length = std::max(1.0F, std::hypot(away_x, away_y));
  const ImVec2 size = text_size(context.fonts.small, label);
  const float centre_x = x + away_x / length * (gap + 0.5F * size.x * std::abs(away_x) / length);
  const float centre_y = y + away_y / length * gap;
  const auto within = [](float at, float low, float room) {
    return std::clamp(at, low, low + std::max(0.0F, room));
  };
  const float edge = context.px(kEdgePx);
  const ImVec2 at(within(centre_x - 0.5F * size.x, view.left() + edge, view.width() - size.x - 2 * edge),
                  within(centre_y - 0.5F * size.y, view.top() + edge, view.height() - size.y - 2 * edge));
  const Rect rect{std::floor(at.x), std::floor(at.y), size.x, size.y};
  const bool free =
      rect.right() < taken.x || rect.x > taken.right() || rect.bottom() < taken.y || rect.y > taken.bottom();
  if (taken.empty() || free)
    draw_text(*ImPlot::GetPlotDrawList(), context.fonts.small, {rect.x, rect.y}, colour, label);
  return rect;
}

// A few numbers along an edge, and behind them its name.
void label_edge(const DrawContext& context, const PlotView& view, const Pixel& a, const Pixel& b,
                const figures::Range& range, const std::string& name) {
  const Rect named =
      write_at_edge(context, view, a, b, 0.5F, context.px(kLabelGapPx), context.theme.text, name);
  if (!(range.high > range.low)) return;
  for (const figures::Tick& tick : figures::linear_ticks(range.low, range.high, kEdgeTicks)) {
    const auto share = static_cast<float>((tick.value - range.low) / range.width());
    if (share < 0.08F || share > 0.92F) continue;  // at a corner two axes meet
    const ImVec2 at(std::lerp(a.x, b.x, share), std::lerp(a.y, b.y, share));
    ImPlot::GetPlotDrawList()->AddCircleFilled(at, context.px(1.5F), context.theme.dim);
    write_at_edge(context, view, a, b, share, context.px(kTickLabelGapPx), context.theme.dim, tick.label,
                  named);
  }
}

}  // namespace

void draw_space_frame(const DrawContext& context, const figures::Panel& panel, const figures::SpaceBox& box,
                      const figures::Orbit& orbit, const PlotView& view) {
  const auto corners = corners_of(box, orbit);
  const figures::BoxFrame frame = figures::box_frame(corners);
  std::array<Pixel, 8> at;
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = view.to_pixel(corners[i].x, corners[i].y);
  const std::array<const std::string*, 3> labels{&panel.x.label, &panel.y.label, &panel.z.label};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t up = std::size_t{1} << axis;
    for (std::size_t from = 0; from < at.size(); ++from)
      if ((from & up) == 0 && frame.is_drawn(from, axis))
        ImPlot::GetPlotDrawList()->AddLine({at[from].x, at[from].y}, {at[from | up].x, at[from | up].y},
                                           with_alpha(context.theme.dim, 0.45F));
    const std::size_t low = frame.labelled[axis];
    label_edge(context, view, at[low], at[low | up], {box.low[axis], box.high[axis]}, *labels[axis]);
  }
}

}  // namespace keyscope::window

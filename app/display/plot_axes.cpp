#include "app/display/plot_axes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "app/display/layout.hpp"
#include "app/display/plot_legend.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::window {

namespace {

using figures::Tick;

constexpr float kXTickPx = 90, kYTickPx = 70;    // room for one
constexpr float kXPlacePx = 45, kYPlacePx = 32;  // of a matrix in another order than positions
constexpr float kRowOfTextPx = 15;               // that a token's text takes beside its row
constexpr float kTickGapPx = 6;
constexpr float kNameGapPx = 8;
constexpr float kMostNamePx = 150;  // of a category, whatever it says: the plot is what is looked at

std::string name_of(const figures::Axis& axis) { return figures::name_with_units(axis.label, axis.units); }

// Beside the plot, whose height does not depend on how many lines these are.
std::vector<std::string> y_name(const Font& font, const figures::Panel& panel, const PlotView& view) {
  return name_lines(name_of(panel.y), view.height(), measure_of(font));
}

// Numbers or categories, a number at most every `per_tick` pixels of `length`.
std::vector<Tick> ticks_along(const figures::Panel& panel, const figures::Axis& axis, double low, double high,
                              float per_tick, float length) {
  return figures::ticks_of(axis, low, high, std::max(2, static_cast<int>(length / per_tick)),
                           panel.heatmap.has_value());
}

// What of an axis can have ticks, and how long that is on the screen. A matrix has none beside its cells:
// where a square stands in a frame that is no square, there is room on two sides of it that stands for
// nothing.
struct Span {
  double low = 0, high = 0;
  float length = 0;

  int n_ticks(float per_tick) const { return static_cast<int>(length / per_tick); }
};

Span within(double low, double high, float length, double first, double last) {
  const double per_unit = length / (high - low);
  const Span span{std::max(low, first), std::min(high, last), 0};
  return {span.low, span.high, static_cast<float>(std::max(0.0, span.high - span.low) * per_unit)};
}

std::vector<Tick> all_x_ticks(const DrawContext& context, const figures::Panel& panel, const PlotView& view) {
  Span span{view.x_low(), view.x_high(), view.width()};
  if (const auto& map = panel.heatmap)
    span = within(span.low, span.high, span.length, map->x_first, map->x_last());
  if (!(span.high > span.low)) return {};
  if (panel.order)
    return figures::place_ticks(*panel.order, span.low, span.high, span.n_ticks(context.px(kXPlacePx)));
  return ticks_along(panel, panel.x, span.low, span.high, context.px(kXTickPx), span.length);
}

std::vector<Tick> all_y_ticks(const DrawContext& context, const figures::Panel& panel, const PlotView& view) {
  Span span{view.y_low(), view.y_high(), view.height()};
  if (const auto& map = panel.heatmap)
    span = within(-view.y_high(), -view.y_low(), span.length, map->y_first, map->y_last());
  if (!(span.high > span.low)) return {};
  if (panel.order) {
    const bool names = view.pixels_per_unit_y() >= static_cast<double>(context.px(kRowOfTextPx));
    return names
               ? figures::named_places(*panel.order, span.low, span.high)
               : figures::place_ticks(*panel.order, span.low, span.high, span.n_ticks(context.px(kYPlacePx)));
  }
  return ticks_along(panel, panel.y, span.low, span.high, context.px(kYTickPx), span.length);
}

void cut_names(const DrawContext& context, const figures::Axis& axis, std::vector<Tick>& ticks) {
  if (axis.categories.empty()) return;
  const Font& font = context.fonts.small;
  for (Tick& tick : ticks) tick.label = cut_text(tick.label, context.px(kMostNamePx), measure_of(font));
}

std::vector<Tick> x_ticks(const DrawContext& context, const figures::Panel& panel, const PlotView& view) {
  std::vector<Tick> ticks = all_x_ticks(context, panel, view);
  cut_names(context, panel.x, ticks);
  return ticks;
}

std::vector<Tick> y_ticks(const DrawContext& context, const figures::Panel& panel, const PlotView& view) {
  std::vector<Tick> ticks = all_y_ticks(context, panel, view);
  cut_names(context, panel.y, ticks);
  return ticks;
}

// Labels that would run into each other beside each other.
bool stand_upright(const DrawContext& context, const std::vector<Tick>& ticks, const PlotView& view) {
  float end = -1e9F;
  for (const Tick& tick : ticks) {
    const float x = view.to_pixel(tick.value, 0).x,
                half = 0.5F * text_size(context.fonts.small, tick.label).x;
    if (x - half < end) return true;
    end = x + half + context.px(kTickGapPx);
  }
  return false;
}

float widest(const Font& font, const std::vector<Tick>& ticks) {
  float width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_size(font, tick.label).x);
  return width;
}

}  // namespace

figures::Extent plane_extent(const figures::Panel& panel) {
  const figures::PanelRanges ranges = figures::data_ranges(panel);
  if (panel.heatmap) return {ranges.x.low, ranges.x.high, -ranges.y.low, -ranges.y.high};
  return {ranges.x.low, ranges.x.high, ranges.y.low, ranges.y.high};
}

AxisMargins axis_margins(const DrawContext& context, const figures::Panel& panel, const PlotView& view,
                         bool names) {
  const Font& font = context.fonts.small;
  const float line = text_size(font, "0").y;
  const float ticks = widest(font, y_ticks(context, panel, view));
  const auto name = [&](std::size_t n_lines) {
    return names ? static_cast<float>(n_lines) * line + context.px(kNameGapPx) : 0;
  };
  // So wide that labels of usual length do not move the plot while it is zoomed.
  const float usual = text_size(font, "−0.00").x;
  const std::vector<Tick> columns = x_ticks(context, panel, view);
  const float below = stand_upright(context, columns, view) ? widest(font, columns) : line;
  return {std::max(ticks, usual) + context.px(kTickGapPx) + name(y_name(font, panel, view).size()),
          below + context.px(kTickGapPx) + name(1) + context.px(2)};
}

PlotGrid draw_plot_axes(const DrawContext& context, const figures::Panel& panel, const PlotView& view,
                        bool names) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Font& font = context.fonts.small;
  const float gap = context.px(kTickGapPx), line = text_size(font, "0").y;
  const float bottom = view.top() + view.height();
  PlotGrid grid;
  const std::vector<Tick> columns = x_ticks(context, panel, view);
  const bool upright = stand_upright(context, columns, view);
  for (const Tick& tick : columns) {
    const float x = view.to_pixel(tick.value, 0).x, width = text_size(font, tick.label).x;
    grid.x_px.push_back(static_cast<int>(std::floor(x - view.left())));
    if (upright)
      draw_vertical_text(list, font, {x, bottom + gap + 0.5F * width}, context.theme.dim, tick.label);
    else
      draw_text(list, font, {x - 0.5F * width, bottom + gap}, context.theme.dim, tick.label);
  }
  const std::vector<Tick> rows = y_ticks(context, panel, view);
  for (const Tick& tick : rows) {
    const float y = view.to_pixel(0, plane_y(panel, tick.value)).y;
    grid.y_px.push_back(static_cast<int>(std::floor(y - view.top())));
    const ImVec2 size = text_size(font, tick.label);
    draw_text(list, font, {view.left() - gap - size.x, y - 0.5F * size.y}, context.theme.dim, tick.label);
  }
  if (!names) return grid;
  const float below = upright ? widest(font, columns) : line;
  const std::string x_name = fit_text(font, name_of(panel.x), view.width());
  draw_text(
      list, font,
      {view.left() + 0.5F * (view.width() - text_size(font, x_name).x), bottom + gap + below + context.px(2)},
      context.theme.text, x_name);
  draw_vertical_lines(
      list, font,
      {view.left() - axis_margins(context, panel, view, true).left, view.top() + 0.5F * view.height()},
      context.theme.text, y_name(font, panel, view));
  return grid;
}

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
    if (bracket.left >= view.x_low() && bracket.right <= view.x_high())
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

constexpr float kLabelGapPx = 12;
constexpr float kEdgePx = 3;

struct Corner {
  Pixel at;
  double depth = 0;
};

// By three bits: high on the first, second and third axis.
std::array<Corner, 8> corners_of(const session::SpaceBox& box, const figures::Orbit& orbit,
                                 const PlotView& view) {
  std::array<Corner, 8> corners;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const auto end = [&](std::size_t axis) { return (i >> axis & 1U) != 0 ? box.high[axis] : box.low[axis]; };
    const figures::Turned turned = box.turned(orbit, end(0), end(1), end(2));
    corners[i] = {view.to_pixel(turned.x, turned.y), turned.depth};
  }
  return corners;
}

// Beside the middle of an edge, on the side away from the middle of the box, and inside the plot.
void label_edge(const DrawContext& context, const PlotView& view, const Corner& a, const Corner& b,
                const std::string& label) {
  const Pixel middle = view.to_pixel(0, 0);
  const float x = 0.5F * (a.at.x + b.at.x), y = 0.5F * (a.at.y + b.at.y);
  const float away_x = x - middle.x, away_y = y - middle.y;
  const float length = std::max(1.0F, std::hypot(away_x, away_y));
  const ImVec2 size = text_size(context.fonts.small, label);
  const float gap = context.px(kLabelGapPx);
  const float centre_x = x + away_x / length * (gap + 0.5F * size.x * std::abs(away_x) / length);
  const float centre_y = y + away_y / length * gap;
  const auto within = [](float at, float low, float room) {
    return std::clamp(at, low, low + std::max(0.0F, room));
  };
  const float edge = context.px(kEdgePx);
  const ImVec2 at(within(centre_x - 0.5F * size.x, view.left() + edge, view.width() - size.x - 2 * edge),
                  within(centre_y - 0.5F * size.y, view.top() + edge, view.height() - size.y - 2 * edge));
  draw_text(*ImGui::GetWindowDrawList(), context.fonts.small, {std::floor(at.x), std::floor(at.y)},
            context.theme.text, label);
}

}  // namespace

void draw_space_frame(const DrawContext& context, const figures::Panel& panel, const session::SpaceBox& box,
                      const figures::Orbit& orbit, const PlotView& view) {
  const auto corners = corners_of(box, orbit, view);
  const auto nearest =
      static_cast<std::size_t>(std::ranges::min_element(corners, {}, &Corner::depth) - corners.begin());
  const Pixel middle = view.to_pixel(0, 0);
  const std::array<const std::string*, 3> labels{&panel.x.label, &panel.y.label, &panel.z.label};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::size_t outermost = 0;
    float farthest = -1;
    for (std::size_t from = 0; from < corners.size(); ++from) {
      const std::size_t to = from | std::size_t{1} << axis;
      if (from == to || from == nearest || to == nearest) continue;
      const Corner &a = corners[from], &b = corners[to];
      ImGui::GetWindowDrawList()->AddLine({a.at.x, a.at.y}, {b.at.x, b.at.y},
                                          with_alpha(context.theme.dim, 0.45F));
      const float away = std::hypot(0.5F * (a.at.x + b.at.x) - middle.x, 0.5F * (a.at.y + b.at.y) - middle.y);
      if (away > farthest) farthest = away, outermost = from;
    }
    label_edge(context, view, corners[outermost], corners[outermost | std::size_t{1} << axis], *labels[axis]);
  }
}

}  // namespace keyscope::window

#include "app/display/plot_axes.hpp"

#include <algorithm>
#include <cmath>

#include "app/figures/plot_range.hpp"
#include "app/figures/scale_ticks.hpp"
#include "app/panels/markers.hpp"
#include "app/panels/name_lines.hpp"

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
std::vector<std::string> y_name(ImFont* font, const figures::Panel& panel, const PlotView& view) {
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

std::vector<Tick> all_x_ticks(const PanelContext& context, const figures::Panel& panel,
                              const PlotView& view) {
  Span span{view.x_low(), view.x_high(), view.width()};
  if (const auto& map = panel.heatmap)
    span = within(span.low, span.high, span.length, map->x_first, map->x_last());
  if (!(span.high > span.low)) return {};
  if (panel.order)
    return figures::place_ticks(*panel.order, span.low, span.high, span.n_ticks(context.px(kXPlacePx)));
  return ticks_along(panel, panel.x, span.low, span.high, context.px(kXTickPx), span.length);
}

std::vector<Tick> all_y_ticks(const PanelContext& context, const figures::Panel& panel,
                              const PlotView& view) {
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

void cut_names(const PanelContext& context, const figures::Axis& axis, std::vector<Tick>& ticks) {
  if (axis.categories.empty()) return;
  ImFont* font = context.fonts.small;
  for (Tick& tick : ticks) tick.label = cut_text(tick.label, context.px(kMostNamePx), measure_of(font));
}

std::vector<Tick> x_ticks(const PanelContext& context, const figures::Panel& panel, const PlotView& view) {
  std::vector<Tick> ticks = all_x_ticks(context, panel, view);
  cut_names(context, panel.x, ticks);
  return ticks;
}

std::vector<Tick> y_ticks(const PanelContext& context, const figures::Panel& panel, const PlotView& view) {
  std::vector<Tick> ticks = all_y_ticks(context, panel, view);
  cut_names(context, panel.y, ticks);
  return ticks;
}

// Labels that would run into each other beside each other.
bool stand_upright(const PanelContext& context, const std::vector<Tick>& ticks, const PlotView& view) {
  float end = -1e9F;
  for (const Tick& tick : ticks) {
    const float x = view.to_pixel(tick.value, 0).x,
                half = 0.5F * text_size(context.fonts.small, tick.label).x;
    if (x - half < end) return true;
    end = x + half + context.px(kTickGapPx);
  }
  return false;
}

float widest(ImFont* font, const std::vector<Tick>& ticks) {
  float width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_size(font, tick.label).x);
  return width;
}

}  // namespace

session::Extent plane_extent(const figures::Panel& panel) {
  const figures::PanelRanges ranges = figures::data_ranges(panel);
  if (panel.heatmap) return {ranges.x.low, ranges.x.high, -ranges.y.low, -ranges.y.high};
  return {ranges.x.low, ranges.x.high, ranges.y.low, ranges.y.high};
}

AxisMargins axis_margins(const PanelContext& context, const figures::Panel& panel, const PlotView& view,
                         bool names) {
  ImFont* font = context.fonts.small;
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

PlotGrid draw_plot_axes(const PanelContext& context, const figures::Panel& panel, const PlotView& view,
                        bool names) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImFont* font = context.fonts.small;
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

}  // namespace keyscope::window

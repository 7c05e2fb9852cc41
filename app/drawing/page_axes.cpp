#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>
#include <vector>

#include "app/drawing/page_layout.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::figures {

namespace {

constexpr double kBetweenNames = 3;  // points, between the names of categories
constexpr double kRowOfText = 8;     // points, that a token's text takes beside its row

// Where rows stand for cells the ranges are whole numbers, and may run downwards.
std::vector<Tick> ticks_along(const Panel& panel, const Axis& axis, const Range& range, double length,
                              double per_tick) {
  const double low = std::min(range.low, range.high), high = std::max(range.low, range.high);
  const int wanted = std::max(2, static_cast<int>(length / per_tick));
  const bool ordered = panel.order && (&axis == &panel.y || !panel.order->rows_only);
  if (!ordered || !axis.categories.empty()) {
    std::optional<double> first_cell;
    if (panel.heatmap) first_cell = &axis == &panel.x ? panel.heatmap->x_first : panel.heatmap->y_first;
    return ticks_of(axis, low, high, wanted, first_cell);
  }
  const bool names = &axis == &panel.y && length / (high - low) >= kRowOfText;
  return names ? named_places(*panel.order, low, high) : place_ticks(*panel.order, low, high, wanted);
}

// Small plots stand so close that a number at an edge of one would run into its neighbour's: it ends there.
double anchor_inside(const Page& page, const PanelLayout& place, double x, const std::string& text) {
  const double half = measure_text(page.cairo, text, {place.tick_size}).width / 2;
  if (!place.bare) return 0.5;
  if (x - half < place.plot.x) return 0;
  return x + half > place.plot.right() ? 1 : 0.5;
}

// A number, or the name of a category, below the plot.
void write_below(const Page& page, const Panel& panel, const PanelLayout& place, double x,
                 const std::string& text, const CategoryStyle& look) {
  const double y = place.plot.bottom() + kTickLength + kTickGap;
  if (panel.x.categories.empty()) {
    draw_text(page.cairo, text, {place.tick_size}, x, y, {anchor_inside(page, place, x, text), 0});
  } else if (look.upright) {
    draw_text(page.cairo, text, look.style, x, y, {1, 0.5}, -std::numbers::pi / 2);
  } else {
    draw_text(page.cairo, text, look.style, x, y, {0.5, 0});
  }
}

PlotScale scale_of(const PanelLayout& place) { return {place.ranges.x, place.ranges.y, place.plot}; }

// A long name as wide as it may be, flush with the axis, on the lines that `room` leaves.
TextStyle in_lines(TextStyle style, double width, double line_height, double room) {
  style.wrap_width = width;
  style.max_lines = std::max(1, static_cast<int>(room / line_height));
  style.alignment = Alignment::kRight;
  return style;
}

void line(cairo_t* cairo, double x0, double y0, double x1, double y1) {
  cairo_move_to(cairo, x0, y0);
  cairo_line_to(cairo, x1, y1);
  cairo_stroke(cairo);
}

// Ticks with their numbers; returns the width of the widest number beside the plot.
double draw_ticks(const Page& page, const Panel& panel, const PanelLayout& place) {
  cairo_t* cairo = page.cairo;
  const Box& plot = place.plot;
  const PlotScale scale = scale_of(place);
  const TextStyle style{place.tick_size};
  const CategoryStyle names = x_category_style(cairo, panel, place.ranges, plot.width);
  for (const Tick& tick : x_ticks(panel, place.ranges, plot.width)) {
    const double x = scale.page_x(tick.value);
    page.set_colour(page.theme.frame);
    line(cairo, x, plot.bottom(), x, plot.bottom() + kTickLength);
    page.set_colour(page.theme.ink);
    if (place.x_labels) write_below(page, panel, place, x, tick.label, names);
  }
  double widest = 0;
  const TextStyle beside = panel.y.categories.empty()
                               ? style
                               : y_category_style(cairo, panel, place.ranges, plot.height, place.cell.width);
  for (const Tick& tick : y_ticks(panel, place.ranges, plot.height)) {
    const double y = scale.page_y(tick.value);
    page.set_colour(page.theme.frame);
    line(cairo, plot.x - kTickLength, y, plot.x, y);
    page.set_colour(page.theme.ink);
    widest = std::max(widest, measure_text(cairo, tick.label, beside).width);
    if (place.y_labels) draw_text(cairo, tick.label, beside, plot.x - kTickLength - kTickGap, y, {1, 0.5});
  }
  return widest;
}

}  // namespace

std::string axis_label(const Axis& axis) { return name_with_units(axis.label, axis.units); }

TextStyle x_label_style(cairo_t* cairo, const Panel& panel, const PanelLayout& place) {
  const double centre = place.plot.x + place.plot.width / 2;
  const double room = 2 * std::min(centre - place.cell.x, place.cell.right() - centre);
  return fit_label(cairo, axis_label(panel.x), std::max(room, place.plot.width));
}

TextStyle y_label_style(cairo_t* cairo, const Panel& panel, double plot_height) {
  return fit_label(cairo, axis_label(panel.y), plot_height);
}

CategoryStyle x_category_style(cairo_t* cairo, const Panel& panel, const PanelRanges& ranges,
                               double plot_width) {
  CategoryStyle look;
  const double line_height = measure_text(cairo, "0", look.style).height;
  look.height = line_height;
  if (panel.x.categories.empty()) return look;
  const double room = plot_width / std::abs(ranges.x.width()) - kBetweenNames;
  double widest = 0, widest_word = 0;
  for (const std::string& name : panel.x.categories) {
    widest = std::max(widest, measure_text(cairo, name, look.style).width);
    for (const auto word : std::views::split(name, ' '))
      widest_word = std::max(widest_word, measure_text(cairo, {word.begin(), word.end()}, look.style).width);
  }
  if (widest <= room) return look;
  look.upright = widest_word > room;
  if (look.upright) {
    look.height = std::min(widest, kMostUprightNames);
    if (widest > kMostUprightNames) look.style = in_lines(look.style, kMostUprightNames, line_height, room);
    return look;
  }
  look.style.wrap_width = room;
  look.style.alignment = Alignment::kCentre;
  for (const std::string& name : panel.x.categories)
    look.height = std::max(look.height, measure_text(cairo, name, look.style).height);
  return look;
}

TextStyle y_category_style(cairo_t* cairo, const Panel& panel, const PanelRanges& ranges, double plot_height,
                           double panel_width) {
  const TextStyle style{kTickSize};
  const double most = kMostNamesShare * panel_width;
  double widest = 0;
  for (const std::string& name : panel.y.categories)
    widest = std::max(widest, measure_text(cairo, name, style).width);
  if (widest <= most) return style;
  return in_lines(style, most, measure_text(cairo, "0", style).height,
                  plot_height / std::abs(ranges.y.width()));
}

std::vector<Tick> x_ticks(const Panel& panel, const PanelRanges& ranges, double plot_width) {
  return ticks_along(panel, panel.x, ranges.x, plot_width, 36);
}

std::vector<Tick> y_ticks(const Panel& panel, const PanelRanges& ranges, double plot_height) {
  return ticks_along(panel, panel.y, ranges.y, plot_height, 24);
}

void draw_grid(const Page& page, const Panel& panel, const PanelLayout& place) {
  if (panel.heatmap || !place.ticks) return;
  const PlotScale scale = scale_of(place);
  cairo_set_line_width(page.cairo, 0.5);
  page.set_colour(page.theme.grid);
  for (const Tick& tick : x_ticks(panel, place.ranges, place.plot.width))
    line(page.cairo, scale.page_x(tick.value), place.plot.y, scale.page_x(tick.value), place.plot.bottom());
  for (const Tick& tick : y_ticks(panel, place.ranges, place.plot.height))
    line(page.cairo, place.plot.x, scale.page_y(tick.value), place.plot.right(), scale.page_y(tick.value));
}

void draw_axes(const Page& page, const Panel& panel, const PanelLayout& place) {
  cairo_t* cairo = page.cairo;
  const Box& plot = place.plot;
  cairo_set_line_width(cairo, 0.5);
  page.set_colour(page.theme.frame);
  cairo_rectangle(cairo, plot.x, plot.y, plot.width, plot.height);
  cairo_stroke(cairo);
  const double widest = place.ticks ? draw_ticks(page, panel, place) : 0;
  if (place.bare) return;
  page.set_colour(page.theme.ink);
  const double tick_height = x_category_style(cairo, panel, place.ranges, plot.width).height;
  if (place.x_labels)
    draw_text(cairo, axis_label(panel.x), x_label_style(cairo, panel, place), plot.x + plot.width / 2,
              plot.bottom() + kTickLength + kTickGap + tick_height + 2, {0.5, 0});
  if (place.y_labels)
    draw_text(cairo, axis_label(panel.y), y_label_style(cairo, panel, plot.height),
              plot.x - kTickLength - kTickGap - widest - 3, plot.y + plot.height / 2, {0.5, 1},
              -std::numbers::pi / 2);
}

namespace {

constexpr double kTreeShare = 0.14, kMostTreeHeight = 48;  // of the plot's width; points
constexpr double kBarHeight = 5, kBarGap = 2;

double tree_height(const TokenOrder& order, double plot_width) {
  return order.merges.empty() ? 0 : std::min(kMostTreeHeight, kTreeShare * plot_width);
}

void draw_bars(const Page& page, const TokenOrder& order, const PlotScale& scale, double bottom) {
  for (const RetentionRun& run : retention_runs(order)) {
    const double x = scale.page_x(static_cast<double>(run.first)),
                 width = scale.page_x(static_cast<double>(run.last)) - x,
                 height = run.retained ? kBarHeight : kBarHeight / 2;
    page.set_colour(page.theme.of_series(run.retained ? kBlue : kOrange));
    cairo_rectangle(page.cairo, x, bottom - height, width, height);
    cairo_fill(page.cairo);
  }
}

// From the highest bracket down, so wide as the page can tell its ends apart.
void draw_tree(const Page& page, const TokenOrder& order, const PlotScale& scale, const Box& box) {
  const std::vector<Bracket> brackets = brackets_of(order);
  if (brackets.empty() || !(brackets.back().height > 0)) return;
  const auto y = [&](double height) { return box.bottom() - height / brackets.back().height * box.height; };
  page.set_colour(page.theme.muted);
  cairo_set_line_width(page.cairo, std::clamp(box.width / static_cast<double>(order.size()) / 3, 0.15, 0.5));
  for (const Bracket& bracket : brackets) {
    const double left = scale.page_x(bracket.left), right = scale.page_x(bracket.right);
    cairo_move_to(page.cairo, left, y(bracket.left_height));
    cairo_line_to(page.cairo, left, y(bracket.height));
    cairo_line_to(page.cairo, right, y(bracket.height));
    cairo_line_to(page.cairo, right, y(bracket.right_height));
  }
  cairo_stroke(page.cairo);
}

}  // namespace

double order_height(const Panel& panel, double plot_width) {
  const auto& order = panel.order;
  if (!order || order->token.empty()) return 0;
  const double bars = order->retained.empty() ? 0 : kBarHeight + kBarGap;
  const double tree = tree_height(*order, plot_width);
  return tree + bars + (tree > 0 ? kBarGap : 0);
}

void draw_order(const Page& page, const Panel& panel, const PanelLayout& place) {
  const auto& order = panel.order;
  if (!order || order_height(panel, place.plot.width) == 0) return;
  const PlotScale scale{place.ranges.x, place.ranges.y, place.plot};
  double bottom = place.plot.y - kBarGap;
  if (!order->retained.empty()) {
    draw_bars(page, *order, scale, bottom);
    bottom -= kBarHeight + kBarGap;
  }
  const double height = tree_height(*order, place.plot.width);
  draw_tree(page, *order, scale, {place.plot.x, bottom - height, place.plot.width, height});
}

}  // namespace keyscope::figures

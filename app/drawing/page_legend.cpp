#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "app/drawing/page_layout.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::figures {

namespace {

constexpr TextStyle kEntryStyle{7};
constexpr double kKeyWidth = 12, kEntryGap = 12, kRowHeight = 11;

std::set<std::string> look_ids(const Panel& panel) {
  std::set<std::string> ids;
  for (const PointSeries& series : panel.points)
    if (!series.x.empty()) ids.insert(series.id);
  for (const LineSeries& series : panel.lines)
    if (!series.x.empty()) ids.insert(series.id);
  return ids;
}

bool shares_a_look(const std::vector<std::set<std::string>>& ids, std::size_t panel) {
  for (std::size_t other = 0; other < ids.size(); ++other)
    if (other != panel &&
        std::ranges::any_of(ids[panel], [&](const std::string& id) { return ids[other].contains(id); }))
      return true;
  return false;
}

// Adds what is not there yet and has a name.
void add_entries(Legend& legend, const Panel& panel) {
  const auto is_there = [&](const std::string& id) {
    return std::ranges::any_of(legend.entries, [&](const LegendEntry& entry) {
      return (entry.points && entry.points->id == id) || (entry.line && entry.line->id == id);
    });
  };
  for (const PointSeries& series : panel.points)
    if (!series.label.empty() && !series.x.empty() && !is_there(series.id))
      legend.entries.push_back({&series, nullptr, {}});
  for (const LineSeries& series : panel.lines)
    if (!series.label.empty() && !series.x.empty() && !is_there(series.id))
      legend.entries.push_back({nullptr, &series, {}});
}

// What everybody looks for first stands first, whatever the order of drawing.
void put_keys_first(Legend& legend) {
  const auto rank = [](const LegendEntry& entry) {
    if (!entry.points) return 2;
    return entry.points->id == "retained" ? 0 : (entry.points->id == "evicted" ? 1 : 2);
  };
  std::ranges::stable_sort(legend.entries, std::less<>(), rank);
}

const std::string& label_of(const LegendEntry& entry) {
  return entry.points ? entry.points->label : entry.line->label;
}

void draw_key(const Page& page, const LegendEntry& entry) {
  const double y = entry.box.y + entry.box.height / 2;
  if (entry.points) {
    PointSeries look;  // the look alone; legible even where the cloud's points are tiny
    // What has many colours is known by its shape alone.
    look.colour = entry.points->value.empty() ? entry.points->colour : kCharcoal;
    look.marker = entry.points->marker;
    look.size_px = std::clamp(entry.points->size_px, 6.0F, 9.0F);
    look.token = {0};
    return draw_marker(page, look, entry.box.x + kKeyWidth / 2, y);
  }
  page.set_colour(page.theme.of_series(entry.line->colour));
  cairo_set_line_width(page.cairo, 1.2);
  const std::array dash{3.0, 2.0};
  cairo_set_dash(page.cairo, dash.data(), entry.line->dashed ? 2 : 0, 0);
  cairo_move_to(page.cairo, entry.box.x, y);
  cairo_line_to(page.cairo, entry.box.x + kKeyWidth, y);
  cairo_stroke(page.cairo);
  cairo_set_dash(page.cairo, nullptr, 0, 0);
  if (const auto marker = entry.line->marker)
    draw_marker(page, marker_look(entry.line->colour, *marker), entry.box.x + kKeyWidth / 2, y);
}

}  // namespace

LegendPlan plan_legends(const Figure& figure) {
  LegendPlan plan;
  plan.panels.resize(figure.panels.size());
  std::vector<std::set<std::string>> ids;
  ids.reserve(figure.panels.size());
  for (const Panel& panel : figure.panels) ids.push_back(look_ids(panel));
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    if (!figure.panels[i].legend) continue;
    const bool own = figure.panels.size() > 1 && !shares_a_look(ids, i);
    add_entries(own ? plan.panels[i] : plan.figure, figure.panels[i]);
  }
  put_keys_first(plan.figure);
  return plan;
}

void place_legend(cairo_t* cairo, Legend& legend, double x, double y, double width) {
  legend.height = 0;
  std::size_t first = 0;
  while (first < legend.entries.size()) {
    double used = 0;
    std::size_t end = first;
    for (; end < legend.entries.size(); ++end) {
      const double label = measure_text(cairo, label_of(legend.entries[end]), kEntryStyle).width;
      const double entry = std::min(width, kKeyWidth + 3 + label);
      const double with_it = used + (end > first ? kEntryGap : 0) + entry;
      if (end > first && with_it > width) break;
      legend.entries[end].box = {used + (end > first ? kEntryGap : 0), y + legend.height, entry, kRowHeight};
      used = with_it;
    }
    for (std::size_t i = first; i < end; ++i)
      legend.entries[i].box.x += x + std::max(0.0, (width - used) / 2);
    legend.height += kRowHeight;
    first = end;
  }
}

void draw_legend(const Page& page, const Legend& legend) {
  for (const LegendEntry& entry : legend.entries) {
    draw_key(page, entry);
    page.set_colour(page.theme.ink);
    TextStyle style = kEntryStyle;
    style.wrap_width = entry.box.width - kKeyWidth - 3 + 0.5;  // cut where it is wider than the page
    style.max_lines = 1;
    draw_text(page.cairo, label_of(entry), style, entry.box.x + kKeyWidth + 3,
              entry.box.y + entry.box.height / 2, {0, 0.5});
  }
}

namespace {

constexpr TextStyle kTickStyle{6.5};
constexpr double kLabelGap = 4;
constexpr double kCategoryHeight = 13;  // at most
constexpr double kTickSpace = 24;

double category_height(const ColourScale& scale, double height) {
  return std::min(kCategoryHeight, height / static_cast<double>(scale.categories.size()));
}

std::vector<ScaleTick> bar_ticks(const ColourScale& scale, double height) {
  return ticks_of(scale, std::max(2, static_cast<int>(height / kTickSpace)),
                  category_height(scale, height) / height);
}

std::string label_of(const ColourScale& scale) { return name_with_units(scale.long_name, scale.units); }

double widest_bar_tick(cairo_t* cairo, const std::vector<ScaleTick>& ticks) {
  double widest = 0;
  for (const ScaleTick& tick : ticks)
    widest = std::max(widest, measure_text(cairo, tick.label, kTickStyle).width);
  return widest;
}

void draw_gradient(cairo_t* cairo, const ColourScale& scale, const Box& bar) {
  cairo_pattern_t* gradient = cairo_pattern_create_linear(0, bar.bottom(), 0, bar.y);
  const auto& table = colour_table(scale.colour_map);
  for (std::size_t i = 0; i < table.size(); i += 5)
    cairo_pattern_add_color_stop_rgb(gradient, static_cast<double>(i) / (kColourMapSize - 1),
                                     table[i].r / 255.0, table[i].g / 255.0, table[i].b / 255.0);
  cairo_set_source(cairo, gradient);
  cairo_rectangle(cairo, bar.x, bar.y, bar.width, bar.height);
  cairo_fill(cairo);
  cairo_pattern_destroy(gradient);
}

void draw_blocks(const Page& page, const ColourScale& scale, const Box& bar) {
  const double height = category_height(scale, bar.height);
  for (std::size_t i = 0; i < scale.categories.size(); ++i) {
    page.set_colour(page.theme.of_series(category_colour(scale, i)));
    cairo_rectangle(page.cairo, bar.x, bar.y + static_cast<double>(i) * height, bar.width, height);
    cairo_fill(page.cairo);
  }
}

void draw_bar_ticks(const Page& page, const ColourScale& scale, const Box& bar,
                    const std::vector<ScaleTick>& ticks) {
  for (const ScaleTick& tick : ticks) {
    const double y = bar.bottom() - tick.share * bar.height;
    if (scale.categories.empty()) {
      page.set_colour(page.theme.frame);
      cairo_move_to(page.cairo, bar.right(), y);
      cairo_line_to(page.cairo, bar.right() + kTickLength, y);
      cairo_stroke(page.cairo);
    }
    page.set_colour(page.theme.ink);
    draw_text(page.cairo, tick.label, kTickStyle, bar.right() + kTickLength + kTickGap, y, {0, 0.5});
  }
}

}  // namespace

double colour_bar_extent(cairo_t* cairo, const ColourScale& scale, double height) {
  const double label = measure_text(cairo, label_of(scale), fit_label(cairo, label_of(scale), height)).height;
  return kColourBarGap + kColourBarWidth + kTickLength + kTickGap +
         widest_bar_tick(cairo, bar_ticks(scale, height)) + kLabelGap + label;
}

void draw_colour_bar(const Page& page, const ColourScale& scale, const Box& bar) {
  cairo_t* cairo = page.cairo;
  Box inked = bar;
  if (scale.categories.empty()) {
    draw_gradient(cairo, scale, bar);
  } else {
    draw_blocks(page, scale, bar);
    inked.height = category_height(scale, bar.height) * static_cast<double>(scale.categories.size());
  }
  cairo_rectangle(cairo, inked.x, inked.y, inked.width, inked.height);
  page.set_colour(page.theme.frame);
  cairo_set_line_width(cairo, 0.5);
  cairo_stroke(cairo);

  const std::vector<ScaleTick> ticks = bar_ticks(scale, bar.height);
  draw_bar_ticks(page, scale, bar, ticks);
  page.set_colour(page.theme.ink);
  const double x = bar.right() + kTickLength + kTickGap + widest_bar_tick(cairo, ticks) + kLabelGap;
  draw_text(cairo, label_of(scale), fit_label(cairo, label_of(scale), bar.height), x, bar.y + bar.height / 2,
            {0.5, 0}, -std::acos(0.0));
}

}  // namespace keyscope::figures

#include "app/figures/page_legend.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "app/figures/page_markers.hpp"
#include "app/drawing/page_text.hpp"

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
  if (entry.line->marker) draw_marker(page, marker_of(*entry.line), entry.box.x + kKeyWidth / 2, y);
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

}  // namespace keyscope::figures

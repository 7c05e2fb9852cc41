#include "app/drawing/page_layout.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/scales.hpp"
#include "app/figures/page_axes.hpp"
#include "app/figures/page_colour_bar.hpp"
#include "app/figures/page_legend.hpp"
#include "app/figures/page_multiples.hpp"
#include "app/figures/page_order.hpp"
#include "app/drawing/page_text.hpp"

namespace keyscope::figures {
namespace {

constexpr double kLeastPanelWidth = 110, kColumnGap = 12, kRowGap = 10;
constexpr double kLeastPlotWidth = 70;  // with fewer columns beside each other there is more
constexpr double kMostHeatmapHeight = 430, kMostNamedHeight = 600;
constexpr double kHeightOfMap = 0.85;  // of a matrix that is no square, in widths of its panel
constexpr double kRowOfNames = 9;      // points that a row with a name takes
constexpr double kRightRoom = 6;       // half a tick label may stand out

int n_columns(const Figure& figure, double width) {
  const int fitting = std::max(1, static_cast<int>(width / kLeastPanelWidth));
  return std::clamp(std::min(figure.columns, static_cast<int>(figure.panels.size())), 1, fitting);
}

double text_height(cairo_t* cairo, const std::string& text, double size, double wrap, bool bold = false) {
  return text.empty() ? 0 : measure_text(cairo, text, {size, bold, wrap}).height;
}

// Room left of the plot for tick labels and the axis label.
double left_room(cairo_t* cairo, const Panel& panel, const PanelRanges& ranges, double plot_height,
                 double panel_width) {
  const TextStyle style = y_category_style(cairo, panel, ranges, plot_height, panel_width);
  double widest = 0;
  for (const Tick& tick : y_ticks(panel, ranges, plot_height))
    widest = std::max(widest, measure_text(cairo, tick.label, style).width);
  const double label =
      panel.y.label.empty()
          ? 0
          : measure_text(cairo, axis_label(panel.y), y_label_style(cairo, panel, plot_height)).height + 3;
  return widest + kTickLength + kTickGap + label;
}

double bottom_room(cairo_t* cairo, const Panel& panel, const PanelLayout& place) {
  const double ticks = x_category_style(cairo, panel, place.ranges, place.plot.width).height;
  return kTickLength + kTickGap + ticks +
         (panel.x.label.empty()
              ? 0
              : measure_text(cairo, axis_label(panel.x), x_label_style(cairo, panel, place)).height + 2);
}

// Height of a matrix that is no square: the same for all panels of a width, whatever stands beside their
// plots.
double map_height(cairo_t* cairo, const Panel& panel, double panel_width) {
  const double least = std::min(kHeightOfMap * panel_width, kMostHeatmapHeight);
  if (panel.y.categories.empty()) return least;
  double widest = 0;
  for (const std::string& name : panel.y.categories)
    widest = std::max(widest, measure_text(cairo, name, {kTickSize}).width);
  const double lines = std::ceil(widest / (kMostNamesShare * panel_width));
  const double named = static_cast<double>(panel.y.categories.size()) * kRowOfNames * std::min(lines, 2.0);
  return std::clamp(named, std::min(least, kMostNamedHeight), kMostNamedHeight);
}

// Height of the plot for its width: as the cells are in a square heatmap; in a scatter of equal units as the
// data is, within what looks well.
double plot_height(const Panel& panel, const PanelRanges& ranges, double plot_width, bool alone) {
  if (panel.heatmap && panel.equal_aspect && panel.heatmap->values.size() > 0)
    return plot_width * std::abs(ranges.y.width() / ranges.x.width());
  if (panel.heatmap) return plot_width;
  if (panel.is_3d()) return plot_width * (alone && plot_width > 300 ? 0.68 : 0.9);
  if (!panel.equal_aspect) return plot_width * (alone ? 0.62 : 0.8);
  const double least = alone ? 0.5 : 0.65, most = alone && plot_width > 300 ? 0.75 : 1;
  return plot_width * std::clamp(ranges.y.width() / ranges.x.width(), least, most);
}

// Height of titles and notes above the plots of one row, so that the plots stand in line.
struct Heading {
  double title = 0, note = 0;
  double height() const { return title + note + (title + note > 0 ? 4 : 0); }
};

Heading heading_of(cairo_t* cairo, std::span<const Panel> row, double width) {
  Heading heading;
  for (const Panel& panel : row) {
    heading.title = std::max(heading.title, text_height(cairo, panel.title, kPanelTitleSize, width, true));
    heading.note = std::max(heading.note, text_height(cairo, panel.note, kNoteSize, width));
  }
  return heading;
}

struct Grid {
  int columns = 1;
  double room =
      0;  // left of the first column, for the axis that all panels of a row share; 0: each has its own
  double cell_width = 0;
};

Grid make_grid(cairo_t* cairo, const Figure& figure, const PanelRanges& shared, double width, int columns) {
  Grid grid;
  grid.columns = columns;
  if (figure.panels.empty()) return grid;
  const bool one_axis = figure.shared_ranges && grid.columns > 1 && !figure.panels.front().is_3d();
  PanelRanges ranges = shared;
  double height = width / grid.columns;
  for (int again = 0; again < 3; ++again) {
    if (one_axis)
      grid.room =
          std::max(grid.room, left_room(cairo, figure.panels.front(), ranges, height, width / grid.columns));
    grid.cell_width = (width - grid.room - kColumnGap * (grid.columns - 1)) / grid.columns;
    const double plot_width = grid.cell_width - kRightRoom;
    height = plot_height(figure.panels.front(), shared, plot_width, false);
    ranges = shared;
    if (figure.panels.front().equal_aspect) equalize(ranges, plot_width, height);
  }
  return grid;
}

// Whether a panel of the grid has one below it, respectively to its left, that shows the same axis.
bool has_below(const Grid& grid, std::size_t panel, std::size_t n_panels) {
  return panel + grid.columns < n_panels;
}
bool has_left(const Grid& grid, std::size_t panel) { return panel % grid.columns != 0; }

// The scale that a panel leaves room for: its own, or among panels that are to be compared that of another,
// so that their plots are alike.
const ColourScale* scale_beside(const Figure& figure, const Panel& panel) {
  const ColourScale* own = colour_scale_of(panel);
  if (own != nullptr || !figure.shared_ranges) return own;
  for (const Panel& other : figure.panels)
    if (other.scale) return &*other.scale;
  return nullptr;
}

// Places plot and colour bar inside the panel's cell, whose x, y and width are known.
//   beside: what scale_beside says; may be null
void place_plot(cairo_t* cairo, const Panel& panel, PanelLayout& place, const Heading& heading,
                double room_left, bool alone, const ColourScale* beside) {
  place.title_y = place.cell.y;
  place.note_y = place.cell.y + heading.title;
  const double before = place.plot.height > 0 ? place.plot.height : place.cell.width;
  const ColourScale* scale = colour_scale_of(panel);
  const double room_right = beside != nullptr ? colour_bar_extent(cairo, *beside, before) : kRightRoom;
  const double most_width = place.cell.width - room_left - room_right;
  double width = most_width;
  double height = panel.heatmap && !panel.equal_aspect ? map_height(cairo, panel, place.cell.width)
                                                       : plot_height(panel, place.ranges, width, alone);
  if (panel.heatmap && panel.equal_aspect && height > kMostHeatmapHeight) {
    width *= kMostHeatmapHeight / height;
    height = kMostHeatmapHeight;
  }
  const double y = place.cell.y + heading.height() + order_height(panel, width);
  place.plot = {place.cell.x + room_left + (most_width - width) / 2, y, width, height};
  if (scale != nullptr) place.colour_bar = {place.plot.right() + kColourBarGap, y, kColourBarWidth, height};
  if (panel.equal_aspect && !panel.heatmap && !panel.is_3d()) equalize(place.ranges, width, height);
  const bool labels_below = place.x_labels && !panel.is_3d();
  place.cell.height =
      place.plot.bottom() - place.cell.y + (labels_below ? bottom_room(cairo, panel, place) : 0);
}

// The room for labels depends on the plot's height, and that on the room. Every time the plot can only become
// smaller, and a label take a second line: after three times nothing changes any more.
void place_panel(cairo_t* cairo, const Panel& panel, PanelLayout& place, const Heading& heading,
                 bool own_axis, bool alone, const ColourScale* beside) {
  const PanelRanges ranges = place.ranges;
  double room = own_axis ? left_room(cairo, panel, ranges, place.cell.width, place.cell.width) : 0;
  place_plot(cairo, panel, place, heading, room, alone, beside);
  for (int again = 0; again < 2; ++again) {
    if (own_axis)
      room = std::max(room, left_room(cairo, panel, place.ranges, place.plot.height, place.cell.width));
    place.ranges = ranges;
    place_plot(cairo, panel, place, heading, room, alone, beside);
  }
}

// One row of the grid from `first` on; returns where it ends.
double place_row(cairo_t* cairo, const Figure& figure, const Grid& grid, std::size_t first, double y,
                 std::vector<PanelLayout>& places) {
  const std::size_t n = std::min<std::size_t>(grid.columns, figure.panels.size() - first);
  const Heading heading = heading_of(cairo, std::span(figure.panels).subspan(first, n), grid.cell_width);
  double bottom = y;
  for (std::size_t i = first; i < first + n; ++i) {
    PanelLayout& place = places[i];
    const double column = static_cast<double>(i - first);
    place.cell = {kPageMargin + grid.room + column * (grid.cell_width + kColumnGap), y, grid.cell_width, 0};
    const bool own_axis = grid.room == 0 && !figure.panels[i].is_3d();
    place_panel(cairo, figure.panels[i], place, heading, own_axis, figure.panels.size() == 1,
                scale_beside(figure, figure.panels[i]));
    place_legend(cairo, place.legend, place.plot.x, place.cell.bottom() + 3, place.plot.width);
    bottom = std::max(bottom, place.cell.bottom() + (place.legend.height > 0 ? 3 + place.legend.height : 0));
  }
  return bottom;
}

// The panels of a figure in a grid of cells that differ in height; returns where they end.
double place_in_columns(cairo_t* cairo, const Figure& figure, const LegendPlan& legends, double y,
                        int columns, PageLayout& page) {
  const PanelRanges shared = shared_data_ranges(figure.panels);
  const Grid grid = make_grid(cairo, figure, shared, page.text_width, columns);
  page.panels.assign(figure.panels.size(), {});
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    PanelLayout& place = page.panels[i];
    place.ranges = figure.shared_ranges ? shared : data_ranges(figure.panels[i]);
    place.legend = legends.panels[i];
    place.x_labels = !figure.shared_ranges || !has_below(grid, i, figure.panels.size());
    place.y_labels = !figure.shared_ranges || !has_left(grid, i);
  }
  for (std::size_t first = 0; first < figure.panels.size(); first += grid.columns)
    y = place_row(cairo, figure, grid, first, y, page.panels) + kRowGap;
  return figure.panels.empty() ? y : y - kRowGap;
}

// In as many columns as leave every plot its least width beside its labels.
double place_panels(cairo_t* cairo, const Figure& figure, const LegendPlan& legends, double y,
                    PageLayout& page) {
  const auto too_narrow = [](const PanelLayout& place) { return place.plot.width < kLeastPlotWidth; };
  for (int columns = n_columns(figure, page.text_width);; --columns) {
    const double bottom = place_in_columns(cairo, figure, legends, y, columns, page);
    if (columns == 1 || std::ranges::none_of(page.panels, too_narrow)) return bottom;
  }
}

}  // namespace

PageLayout lay_out_page(cairo_t* cairo, const Figure& figure, double width) {
  PageLayout page;
  page.width = width;
  page.text_width = width - 2 * kPageMargin;
  page.title_y = kPageMargin;
  double y = kPageMargin;
  if (!figure.title.empty()) y += text_height(cairo, figure.title, kTitleSize, page.text_width, true) + 5;
  LegendPlan legends = plan_legends(figure);
  y = figure.multiples ? place_multiples(cairo, figure, y, page)
                       : place_panels(cairo, figure, legends, y, page);

  page.legend = std::move(legends.figure);
  if (!page.legend.entries.empty()) {
    place_legend(cairo, page.legend, kPageMargin, y + 5, page.text_width);
    y += 5 + page.legend.height;
  }
  page.caption_y = y + 5;
  if (!figure.caption.empty())
    y = page.caption_y + text_height(cairo, figure.caption, kNoteSize, page.text_width);
  page.height = std::ceil(y + kPageMargin);
  return page;
}

}  // namespace keyscope::figures

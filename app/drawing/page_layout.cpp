#include "app/drawing/page_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "app/drawing/page_text.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/scales.hpp"

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

bool is_same(const ColourScale& a, const ColourScale& b) {
  return a.id == b.id && a.long_name == b.long_name && a.units == b.units && a.colour_map == b.colour_map &&
         a.low == b.low && a.high == b.high && a.logarithmic == b.logarithmic &&
         a.categories == b.categories && a.category_colours == b.category_colours;
}

// The scale that several panels are read on, which then stands once beside all; null: there is none, or they
// differ.
const ColourScale* common_scale(const Figure& figure) {
  const ColourScale* common = nullptr;
  int n = 0;
  for (const Panel& panel : figure.panels) {
    const ColourScale* scale = colour_scale_of(panel);
    if (scale == nullptr) continue;
    if (common != nullptr && !is_same(*common, *scale)) return nullptr;
    common = scale;
    ++n;
  }
  return n > 1 ? common : nullptr;
}

// Places plot and colour bar inside the panel's cell, whose x, y and width are known.
//   beside: what scale_beside says; null: nothing stands beside the plot
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
  if (scale != nullptr && beside != nullptr)
    place.colour_bar = {place.plot.right() + kColourBarGap, y, kColourBarWidth, height};
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
                 bool bars, std::vector<PanelLayout>& places) {
  const std::size_t n = std::min<std::size_t>(grid.columns, figure.panels.size() - first);
  const Heading heading = heading_of(cairo, std::span(figure.panels).subspan(first, n), grid.cell_width);
  double bottom = y;
  for (std::size_t i = first; i < first + n; ++i) {
    PanelLayout& place = places[i];
    const double column = static_cast<double>(i - first);
    place.cell = {kPageMargin + grid.room + column * (grid.cell_width + kColumnGap), y, grid.cell_width, 0};
    const bool own_axis = grid.room == 0 && !figure.panels[i].is_3d();
    place_panel(cairo, figure.panels[i], place, heading, own_axis, figure.panels.size() == 1,
                bars ? scale_beside(figure, figure.panels[i]) : nullptr);
    place_legend(cairo, place.legend, place.plot.x, place.cell.bottom() + 3, place.plot.width);
    bottom = std::max(bottom, place.cell.bottom() + (place.legend.height > 0 ? 3 + place.legend.height : 0));
  }
  return bottom;
}

// The panels of a figure in a grid of cells that differ in height; returns where they end.
double place_in_columns(cairo_t* cairo, const Figure& figure, const LegendPlan& legends, double y,
                        int columns, PageLayout& page) {
  const PanelRanges shared = shared_data_ranges(figure.panels);
  const ColourScale* common = common_scale(figure);
  const double bar = common != nullptr ? colour_bar_extent(cairo, *common, page.text_width / columns) : 0;
  const Grid grid = make_grid(cairo, figure, shared, page.text_width - bar, columns);
  page.panels.assign(figure.panels.size(), {});
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    PanelLayout& place = page.panels[i];
    place.ranges = figure.shared_ranges ? shared : data_ranges(figure.panels[i]);
    place.legend = legends.panels[i];
    place.x_labels = !figure.shared_ranges || !has_below(grid, i, figure.panels.size());
    place.y_labels = !figure.shared_ranges || !has_left(grid, i);
  }
  for (std::size_t first = 0; first < figure.panels.size(); first += grid.columns)
    y = place_row(cairo, figure, grid, first, y, common == nullptr, page.panels) + kRowGap;
  if (common != nullptr) {
    const auto read_on =
        std::ranges::find_if(figure.panels, [](const Panel& panel) { return colour_scale_of(panel); });
    const Box& plot = page.panels.front().plot;
    page.panels[read_on - figure.panels.begin()].colour_bar = {
        kPageMargin + page.text_width - bar + kColourBarGap, plot.y, kColourBarWidth, plot.height};
  }
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
  y = figure.multiples ? place_multiples(cairo, figure, *figure.multiples, y, page)
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

namespace {

constexpr double kCellGap = 6;           // between cells
constexpr double kMostGridHeight = 600;  // what a page of a paper leaves beside title and caption
constexpr double kLeastCellHeight = 22;
constexpr double kCellAspect = 0.85;  // height of a scatter's cell for its width, where there is room
constexpr double kLeastTicked = 30;   // points: in narrower cells the numbers of ticks would touch
constexpr double kBeside = 3;         // between a grid and what is written along its edge
constexpr TextStyle kNameStyle{7};    // of rows and columns
constexpr TextStyle kCellNote{kBriefNoteSize};

// What every cell has in common.
struct MultiplesGrid {
  int n_rows = 1, n_columns = 1;
  double left = 0, top = 0;  // of the first cell
  double cell_width = 0, cell_height = 0;
  double note_height = 0;  // above each cell
  bool ticks = false;

  double right() const { return left + n_columns * cell_width + (n_columns - 1) * kCellGap; }
  double row_y(int row) const { return top + row * (note_height + cell_height + kCellGap) + note_height; }
  double bottom() const { return row_y(n_rows - 1) + cell_height; }
};

bool same(const Range& a, const Range& b) { return a.low == b.low && a.high == b.high; }

std::vector<PanelRanges> ranges_of(const Figure& figure) {
  if (figure.shared_ranges) return std::vector(figure.panels.size(), shared_data_ranges(figure.panels));
  std::vector<PanelRanges> ranges;
  ranges.reserve(figure.panels.size());
  for (const Panel& panel : figure.panels) ranges.push_back(data_ranges(panel));
  return ranges;
}

// Scatters of equal units are widened to their cells one by one, so that they share no scale.
bool share_axes(const Figure& figure, const std::vector<PanelRanges>& ranges) {
  const Panel& first = figure.panels.front();
  return (first.heatmap || !first.equal_aspect) && std::ranges::all_of(ranges, [&](const PanelRanges& each) {
           return same(each.x, ranges.front().x) && same(each.y, ranges.front().y);
         });
}

double line_height(cairo_t* cairo, const TextStyle& style) { return measure_text(cairo, "0", style).height; }

double widest_text(cairo_t* cairo, const std::vector<std::string>& texts, const TextStyle& style) {
  double widest = 0;
  for (const std::string& text : texts) widest = std::max(widest, measure_text(cairo, text, style).width);
  return widest;
}

double widest_tick(cairo_t* cairo, const std::vector<Tick>& ticks) {
  double widest = 0;
  for (const Tick& tick : ticks)
    widest = std::max(widest, measure_text(cairo, tick.label, {kBriefTickSize}).width);
  return widest;
}

double tick_room(double text) { return kTickLength + kTickGap + text; }

// Notes of all cells on one line each, or of none: a note that some cells lack would mislead.
double note_height(cairo_t* cairo, const Figure& figure, double cell_width) {
  double widest = 0;
  for (const Panel& panel : figure.panels)
    widest = std::max(widest, measure_text(cairo, panel.note, kCellNote).width);
  return widest > 0 && widest <= cell_width ? line_height(cairo, kCellNote) + 1 : 0;
}

// The size of the cells for the width that is left to them.
void fit_cells(cairo_t* cairo, const Figure& figure, double width, MultiplesGrid& grid) {
  const Panel& first = figure.panels.front();
  grid.cell_width = (width - (grid.n_columns - 1) * kCellGap) / grid.n_columns;
  grid.note_height = note_height(cairo, figure, grid.cell_width);
  const double most =
      std::max(kLeastCellHeight, (kMostGridHeight + kCellGap) / grid.n_rows - kCellGap - grid.note_height);
  const double aspect = first.heatmap && first.equal_aspect ? 1 : kCellAspect;
  grid.cell_height = std::min(grid.cell_width * aspect, most);
  if (first.heatmap && first.equal_aspect) grid.cell_width = std::min(grid.cell_width, grid.cell_height);
}

// Room on either side of the cells, by what is written there.
struct Sides {
  double left = 0, right = 0;
};

Sides sides_of(cairo_t* cairo, const Panel& first, const SmallMultiples& multiples, const MultiplesGrid& grid,
               const PanelRanges& ranges) {
  const double label = line_height(cairo, {kLabelSize});
  const std::string beside = axis_label(first.y);
  Sides sides;
  sides.left =
      measure_text(cairo, beside, fit_label(cairo, beside, grid.bottom() - grid.top)).height + kBeside;
  if (grid.ticks) sides.left += tick_room(widest_tick(cairo, y_ticks(first, ranges, grid.cell_height)));
  sides.right = kBeside + widest_text(cairo, multiples.rows, kNameStyle) + kBeside + label;
  if (first.heatmap) sides.right += colour_bar_extent(cairo, *first.heatmap, grid.bottom() - grid.top);
  return sides;
}

void name_columns_and_rows(cairo_t* cairo, const SmallMultiples& multiples, const MultiplesGrid& grid,
                           double y, PageLayout& page) {
  const double label = line_height(cairo, {kLabelSize});
  page.texts.push_back({multiples.column_label, {kLabelSize}, (grid.left + grid.right()) / 2, y, {0.5, 0}});
  for (int column = 0; column < grid.n_columns; ++column)
    page.texts.push_back({multiples.columns[column],
                          kNameStyle,
                          page.panels[column].plot.x + grid.cell_width / 2,
                          y + label,
                          {0.5, 0}});
  const double right = grid.right() + kBeside;
  for (int row = 0; row < grid.n_rows; ++row)
    page.texts.push_back(
        {multiples.rows[row], kNameStyle, right, grid.row_y(row) + grid.cell_height / 2, {0, 0.5}});
  page.texts.push_back({multiples.row_label,
                        {kLabelSize},
                        right + widest_text(cairo, multiples.rows, kNameStyle) + kBeside,
                        (grid.top + grid.bottom()) / 2,
                        {0.5, 1},
                        std::numbers::pi / 2});
}

// Returns where the label below ends.
double label_axes(cairo_t* cairo, const Figure& figure, const MultiplesGrid& grid, const PanelRanges& ranges,
                  PageLayout& page) {
  const Panel& first = figure.panels.front();
  const double width = grid.right() - grid.left, height = grid.bottom() - grid.top;
  double y = grid.bottom() + kBeside, x = grid.left - kBeside;
  if (grid.ticks) {
    y += tick_room(line_height(cairo, {kBriefTickSize}));
    x -= tick_room(widest_tick(cairo, y_ticks(first, ranges, grid.cell_height)));
  }
  const std::string below = axis_label(first.x), beside = axis_label(first.y);
  const TextStyle style = fit_label(cairo, below, width);
  page.texts.push_back({below, style, grid.left + width / 2, y, {0.5, 0}});
  page.texts.push_back(
      {beside, fit_label(cairo, beside, height), x, grid.top + height / 2, {0.5, 1}, -std::numbers::pi / 2});
  return y + measure_text(cairo, below, style).height;
}

void place_cells(const Figure& figure, const MultiplesGrid& grid, const std::vector<PanelRanges>& ranges,
                 PageLayout& page) {
  page.panels.resize(figure.panels.size());
  for (std::size_t i = 0; i < page.panels.size(); ++i) {
    const int row = static_cast<int>(i) / grid.n_columns, column = static_cast<int>(i) % grid.n_columns;
    PanelLayout& place = page.panels[i];
    place.plot = {grid.left + column * (grid.cell_width + kCellGap), grid.row_y(row), grid.cell_width,
                  grid.cell_height};
    place.cell = place.plot;
    place.ranges = ranges[i];
    const Panel& panel = figure.panels[i];
    if (panel.equal_aspect && !panel.heatmap) equalize(place.ranges, grid.cell_width, grid.cell_height);
    place.bare = true;
    place.ticks = grid.ticks;
    place.tick_size = kBriefTickSize;
    place.x_labels = row + 1 == grid.n_rows;
    place.y_labels = column == 0;
    if (grid.note_height > 0)
      page.texts.push_back(
          {panel.note, kCellNote, place.plot.x, place.plot.y - grid.note_height, {}, 0, true});
  }
}

}  // namespace

double place_multiples(cairo_t* cairo, const Figure& figure, const SmallMultiples& multiples, double y,
                       PageLayout& page) {
  const std::vector<PanelRanges> ranges = ranges_of(figure);
  const double names = line_height(cairo, {kLabelSize}) + line_height(cairo, kNameStyle) + 2;
  MultiplesGrid grid;
  grid.n_rows = static_cast<int>(multiples.rows.size());
  grid.n_columns = static_cast<int>(multiples.columns.size());
  grid.top = y + names;
  Sides sides;
  // The room beside the cells depends on their height, and that on the room: twice settles it.
  for (int again = 0; again < 3; ++again) {
    fit_cells(cairo, figure, page.text_width - sides.left - sides.right, grid);
    grid.ticks = share_axes(figure, ranges) && grid.cell_width >= kLeastTicked;
    sides = sides_of(cairo, figure.panels.front(), multiples, grid, ranges.front());
  }
  const double spare = page.text_width - sides.left - sides.right - (grid.right() - grid.left);
  grid.left = kPageMargin + sides.left + std::max(0.0, spare / 2);
  place_cells(figure, grid, ranges, page);
  name_columns_and_rows(cairo, multiples, grid, y, page);
  if (const Panel& first = figure.panels.front(); first.heatmap) {
    const double bar =
        grid.right() + sides.right - colour_bar_extent(cairo, *first.heatmap, grid.bottom() - grid.top);
    page.panels.front().colour_bar = {bar + kColourBarGap, grid.top, kColourBarWidth,
                                      grid.bottom() - grid.top};
  }
  return label_axes(cairo, figure, grid, ranges.front(), page);
}

}  // namespace keyscope::figures

#include "app/figures/page_multiples.hpp"

#include <algorithm>
#include <array>
#include <numbers>

#include "app/figures/page_axes.hpp"
#include "app/figures/page_colour_bar.hpp"
#include "app/drawing/page_text.hpp"

namespace keyscope::figures {
namespace {

constexpr double kGap = 6;               // between cells
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

  double right() const { return left + n_columns * cell_width + (n_columns - 1) * kGap; }
  double row_y(int row) const { return top + row * (note_height + cell_height + kGap) + note_height; }
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
  grid.cell_width = (width - (grid.n_columns - 1) * kGap) / grid.n_columns;
  grid.note_height = note_height(cairo, figure, grid.cell_width);
  const double most =
      std::max(kLeastCellHeight, (kMostGridHeight + kGap) / grid.n_rows - kGap - grid.note_height);
  const double aspect = first.heatmap && first.equal_aspect ? 1 : kCellAspect;
  grid.cell_height = std::min(grid.cell_width * aspect, most);
  if (first.heatmap && first.equal_aspect) grid.cell_width = std::min(grid.cell_width, grid.cell_height);
}

// Room on either side of the cells, by what is written there.
struct Sides {
  double left = 0, right = 0;
};

Sides sides_of(cairo_t* cairo, const Figure& figure, const MultiplesGrid& grid, const PanelRanges& ranges) {
  const Panel& first = figure.panels.front();
  const double label = line_height(cairo, {kLabelSize});
  const std::string beside = axis_label(first.y);
  Sides sides;
  sides.left =
      measure_text(cairo, beside, fit_label(cairo, beside, grid.bottom() - grid.top)).height + kBeside;
  if (grid.ticks) sides.left += tick_room(widest_tick(cairo, y_ticks(first, ranges, grid.cell_height)));
  sides.right = kBeside + widest_text(cairo, figure.multiples->rows, kNameStyle) + kBeside + label;
  if (first.heatmap) sides.right += colour_bar_extent(cairo, *first.heatmap, grid.bottom() - grid.top);
  return sides;
}

void name_columns_and_rows(cairo_t* cairo, const SmallMultiples& multiples, const MultiplesGrid& grid,
                           double y, PageLayout& page) {
  const double label = line_height(cairo, {kLabelSize});
  page.texts.push_back({multiples.column_label, {kLabelSize}, (grid.left + grid.right()) / 2, y, {0.5, 0}});
  for (int column = 0; column < grid.n_columns; ++column)
    page.texts.push_back({multiples.columns[static_cast<std::size_t>(column)],
                          kNameStyle,
                          page.panels[static_cast<std::size_t>(column)].plot.x + grid.cell_width / 2,
                          y + label,
                          {0.5, 0}});
  const double right = grid.right() + kBeside;
  for (int row = 0; row < grid.n_rows; ++row)
    page.texts.push_back({multiples.rows[static_cast<std::size_t>(row)],
                          kNameStyle,
                          right,
                          grid.row_y(row) + grid.cell_height / 2,
                          {0, 0.5}});
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
    place.plot = {grid.left + column * (grid.cell_width + kGap), grid.row_y(row), grid.cell_width,
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

double place_multiples(cairo_t* cairo, const Figure& figure, double y, PageLayout& page) {
  const std::vector<PanelRanges> ranges = ranges_of(figure);
  const double names = line_height(cairo, {kLabelSize}) + line_height(cairo, kNameStyle) + 2;
  MultiplesGrid grid;
  grid.n_rows = static_cast<int>(figure.multiples->rows.size());
  grid.n_columns = static_cast<int>(figure.multiples->columns.size());
  grid.top = y + names;
  Sides sides;
  // The room beside the cells depends on their height, and that on the room: twice settles it.
  for (int again = 0; again < 3; ++again) {
    fit_cells(cairo, figure, page.text_width - sides.left - sides.right, grid);
    grid.ticks = share_axes(figure, ranges) && grid.cell_width >= kLeastTicked;
    sides = sides_of(cairo, figure, grid, ranges.front());
  }
  const double spare = page.text_width - sides.left - sides.right - (grid.right() - grid.left);
  grid.left = kPageMargin + sides.left + std::max(0.0, spare / 2);
  place_cells(figure, grid, ranges, page);
  name_columns_and_rows(cairo, *figure.multiples, grid, y, page);
  if (const Panel& first = figure.panels.front(); first.heatmap) {
    const double bar =
        grid.right() + sides.right - colour_bar_extent(cairo, *first.heatmap, grid.bottom() - grid.top);
    page.panels.front().colour_bar = {bar + kColourBarGap, grid.top, kColourBarWidth,
                                      grid.bottom() - grid.top};
  }
  return label_axes(cairo, figure, grid, ranges.front(), page);
}

}  // namespace keyscope::figures

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cairo.h>

#include "app/drawing/page_text.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/scales.hpp"

namespace keyscope::figures {

using Box = Rectangle<double>;  // on the page in points (1/72 in)

struct Theme {
  Colour background, ink, muted, frame, grid;
  bool dark = false;

  // A series' colour on this background: on a dark one, those that would vanish are lighter.
  Colour of_series(Colour colour) const {
    if (!dark) return colour;
    if (colour == kBlack || colour == kCharcoal) return ink;
    return colour == kBlue ? Colour{0x2E, 0x93, 0xD6} : colour;
  }
};

inline constexpr Theme kLightTheme{
    {0xFF, 0xFF, 0xFF}, {0x1A, 0x1A, 0x1A}, {0x5C, 0x5C, 0x5C}, {0xA0, 0xA0, 0xA0}, {0xEC, 0xEC, 0xEC}};
// The background is that of the window's panels.
inline constexpr Theme kDarkTheme{{0x17, 0x1B, 0x22}, {0xEC, 0xEC, 0xEC}, {0xA8, 0xAC, 0xB4},
                                  {0x6A, 0x6E, 0x78}, {0x2B, 0x2E, 0x36}, true};

// What everything is painted on.
struct Page {
  cairo_t* cairo = nullptr;
  Theme theme = kLightTheme;
  double pixels_per_point = 1;  // resolution of images
  bool raster = false;          // the page itself is an image
  double marker_scale = 1;      // smaller in small panels

  void set_colour(Colour colour, double alpha = 1) const {
    cairo_set_source_rgba(cairo, colour.r / 255.0, colour.g / 255.0, colour.b / 255.0, alpha);
  }
};

// An entry of a legend: the look of one series.
struct LegendEntry {
  const PointSeries* points = nullptr;
  const LineSeries* line = nullptr;
  Box box;  // marker and label
};

struct Legend {
  double height = 0;
  std::vector<LegendEntry> entries;
};

// A line of text that belongs to no panel alone.
struct PlacedText {
  std::string text;
  TextStyle style;
  double x = 0, y = 0;
  TextAnchor anchor;
  double angle = 0;    // radians, clockwise
  bool muted = false;  // as notes are
};

struct PanelLayout {
  Box cell;        // everything of the panel
  Box plot;        // inside the axes
  Box colour_bar;  // of width 0: none
  double title_y = 0, note_y = 0;
  bool x_labels = true, y_labels = true;  // false: the panel below, or to the left, has the same
  bool bare = false;  // a small multiple: title, note and axis labels stand outside, if anywhere
  bool ticks = true;
  double tick_size = kTickSize;
  PanelRanges ranges;
  Legend legend;  // of looks that no other panel has
};

struct PageLayout {
  double width = 0, height = 0;
  double title_y = 0, caption_y = 0;
  double text_width = 0;  // of title and caption
  std::vector<PanelLayout> panels;
  std::vector<PlacedText> texts;
  Legend legend;  // of looks that several panels share; of a single panel's
};

inline constexpr double kPageMargin = 7;

// Places everything of a figure on a page of the given width (points); the height follows.
//   cairo: measures text
PageLayout lay_out_page(cairo_t* cairo, const Figure& figure, double width);

// Places small multiples from `y` down: cells of one size in a grid, the names of its columns above and of
// its rows to the right, the labels of the axes and the colour bar once for all. Ticks stand at the outer
// cells where all cells have the same axes, and nowhere else. The grid is at most as high as a page; below a
// legible size of its cells it grows.
//   multiples: of the figure, which has a panel for each
//   returns where the grid ends; sets the page's panels and texts
double place_multiples(cairo_t* cairo, const Figure& figure, const SmallMultiples& multiples, double y,
                       PageLayout& page);

inline constexpr double kTickLength = 2.5, kTickGap = 2;

std::vector<Tick> x_ticks(const Panel& panel, const PanelRanges& ranges, double plot_width);
std::vector<Tick> y_ticks(const Panel& panel, const PanelRanges& ranges, double plot_height);

// How the names below a panel of categories are set: on one line each, wrapped, or upright where a word is
// wider than the room of a category. Their height includes all lines. Upright names are no longer than
// kMostUprightNames: longer ones take as many lines as there is room for, and only then are cut.
inline constexpr double kMostUprightNames = 84;  // points
struct CategoryStyle {
  TextStyle style{kTickSize};
  bool upright = false;
  double height = 0;
};
CategoryStyle x_category_style(cairo_t* cairo, const Panel& panel, const PanelRanges& ranges,
                               double plot_width);

// How the names of categories beside a plot are set: on one line, or where one takes more than this share of
// the panel, on as many as its row has room for, and only then cut.
inline constexpr double kMostNamesShare = 0.38;
TextStyle y_category_style(cairo_t* cairo, const Panel& panel, const PanelRanges& ranges, double plot_height,
                           double panel_width);

// The axes' labels with their units, set so that they fit: y along the plot, x centred below it in the cell.
std::string axis_label(const Axis& axis);
TextStyle x_label_style(cairo_t* cairo, const Panel& panel, const PanelLayout& place);
TextStyle y_label_style(cairo_t* cairo, const Panel& panel, double plot_height);

// Data to page coordinates inside a plot.
struct PlotScale {
  Range x, y;
  Box plot;
  double page_x(double value) const { return plot.x + (value - x.low) / x.width() * plot.width; }
  double page_y(double value) const { return plot.bottom() - (value - y.low) / y.width() * plot.height; }
};

// Grid and frame, to be drawn before the data of a panel of two dimensions.
void draw_grid(const Page& page, const Panel& panel, const PanelLayout& place);

// Ticks, labels of ticks and axes.
void draw_axes(const Page& page, const Panel& panel, const PanelLayout& place);

// What stands above an ordered matrix: its tree in thin lines, and below that what the cache still held, so
// that shape says it as well as colour: full bars of retained keys, half as high those of evicted ones.

// The height that it takes above the plot, in points; 0: nothing stands there.
double order_height(const Panel& panel, double plot_width);

void draw_order(const Page& page, const Panel& panel, const PanelLayout& place);

// Which looks stand in the figure's legend and which in a panel's own: a panel that shares no series with any
// other, in a figure of several, has its own. Series without points have no entry.
struct LegendPlan {
  Legend figure;
  std::vector<Legend> panels;
};
LegendPlan plan_legends(const Figure& figure);

// Places the entries in centred rows inside a box of the given width; sets boxes and height.
void place_legend(cairo_t* cairo, Legend& legend, double x, double y, double width);

void draw_legend(const Page& page, const Legend& legend);

inline constexpr double kColourBarWidth = 8;  // points
inline constexpr double kColourBarGap = 7;

// Width that a colour bar with ticks and label takes, right of the plot.
double colour_bar_extent(cairo_t* cairo, const ColourScale& scale, double height);

// Draws the bar with its ticks and label; `bar` is the bar alone. Categories are blocks with their names, the
// first at the top.
void draw_colour_bar(const Page& page, const ColourScale& scale, const Box& bar);

// A point of a panel's series on the page, in points.
struct PlacedPoint {
  double x = 0, y = 0;
  std::size_t series = 0;  // index into the panel's points
  std::size_t at = 0;      // index into the series
  double faded = 0;        // 0 to 1: how far away it looks, in space
};

// A panel of three dimensions seen from a fixed place, without perspective: the frame with its labels, and
// where every point of the panel lies on the page, the farthest first.
void draw_space_frame(const Page& page, const Panel& panel, const PanelLayout& place);
std::vector<PlacedPoint> place_in_space(const Panel& panel, const PanelLayout& place);

// The look of a line's markers.
PointSeries marker_look(Colour colour, Marker marker);

// One marker of a series, at its own size, as in a legend.
void draw_marker(const Page& page, const PointSeries& series, double x, double y);

// Keys counted in hexagons, and their peaks by their tokens.
void draw_density(const Page& page, const Panel& panel, const PanelLayout& place);

// All points of a panel in the order given, clipped to `clip`. On a vector page more than `max_vector_points`
// become one image, so that the file stays small.
//   returns whether they did
bool draw_points(const Page& page, const Panel& panel, const std::vector<PlacedPoint>& points,
                 const Box& clip, std::size_t max_vector_points);

// Where a heatmap's cells lie in a plot of these ranges: all of it where the ranges are the heatmap's own.
Box cells_box(const Heatmap& heatmap, const PanelRanges& ranges, const Box& plot);

// Draws a heatmap's cells so that they fill `cells` up to its last column and row. Cells finer than the
// page's pixels are reduced first, in the heatmap's own way, so that single bright columns never vanish.
void draw_heatmap(const Page& page, const Heatmap& heatmap, const Box& cells);

// Writes every cell's value into it, dark on light and light on dark, where the numbers fit; nothing for NaN.
// A heatmap without `decimals` has none.
void draw_cell_numbers(const Page& page, const Heatmap& heatmap, const Box& cells);

}  // namespace keyscope::figures

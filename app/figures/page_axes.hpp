#pragma once

#include <vector>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/page.hpp"
#include "app/drawing/page_layout.hpp"

namespace keyscope::figures {

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

}  // namespace keyscope::figures

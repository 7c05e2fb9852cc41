#pragma once

#include "app/figures/figure.hpp"
#include "app/panels/panel_context.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/frame.hpp"

namespace keyscope::window {

// The plane of a panel with a heatmap has its rows at y = -row, for row 0 is at the top and the plane's y
// goes upwards; of every other panel it is the panel's own.
inline double plane_y(const figures::Panel& panel, double y) { return panel.heatmap ? -y : y; }

// What a panel's plane must show: the data with a margin, a heatmap's cells exactly.
session::Extent plane_extent(const figures::Panel& panel);

// Ticks with their labels, and where there is room the axes' names, in the margins of a plot. Returns where
// the grid's lines lie inside it.
//   names: of the axes as well
PlotGrid draw_plot_axes(const PanelContext& context, const figures::Panel& panel, const PlotView& view,
                        bool names);

// The room that they take at the left of a plot and below it, in pixels.
struct AxisMargins {
  float left = 0, below = 0;
};
AxisMargins axis_margins(const PanelContext& context, const figures::Panel& panel, const PlotView& view,
                         bool names);

}  // namespace keyscope::window

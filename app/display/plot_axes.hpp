#pragma once

#include <vector>

#include "app/display/draw_context.hpp"
#include "app/display/frame.hpp"
#include "app/display/plot_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/scales.hpp"
#include "app/session/keyspace_view.hpp"

namespace keyscope::window {

// The plane of a panel with a heatmap has its rows at y = -row, for row 0 is at the top and the plane's y
// goes upwards; of every other panel it is the panel's own.
inline double plane_y(const figures::Panel& panel, double y) { return panel.heatmap ? -y : y; }

// What a panel's plane must show: the data with a margin, a heatmap's cells exactly.
figures::Extent plane_extent(const figures::Panel& panel);

// Ticks with their labels, and where there is room the axes' names, in the margins of a plot. Returns where
// the grid's lines lie inside it.
//   names: of the axes as well
PlotGrid draw_plot_axes(const DrawContext& context, const figures::Panel& panel, const PlotView& view,
                        bool names);

// The room that they take at the left of a plot and below it, in pixels.
struct AxisMargins {
  float left = 0, below = 0;
};
AxisMargins axis_margins(const DrawContext& context, const figures::Panel& panel, const PlotView& view,
                         bool names);

// What stands above an ordered matrix, as it does on the page of a file: its tree in thin lines, and below
// that full bars of retained keys, half as high those of evicted ones. It pans and zooms with the matrix.
class OrderMargin {
 public:
  // Another panel from now on.
  void set(const figures::Panel& panel);

  // What it takes above a plot, in pixels; 0: nothing stands there, or there is no room.
  float height(const DrawContext& context, float plot_height) const;

  //   view: of the matrix below
  void draw(const DrawContext& context, const PlotView& view, float height) const;

 private:
  void draw_tree(const DrawContext& context, const PlotView& view, float top, float bottom) const;

  std::vector<figures::Bracket> brackets_;
  std::vector<figures::RetentionRun> runs_;
};

// The box that points of space lie in, as it is seen: the edges that meet in its nearest corner are left out,
// and of each axis the edge that lies farthest outside has its name.
void draw_space_frame(const DrawContext& context, const figures::Panel& panel, const session::SpaceBox& box,
                      const figures::Orbit& orbit, const PlotView& view);

}  // namespace keyscope::window

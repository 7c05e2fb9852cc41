#pragma once

#include <vector>

#include "app/display/draw_context.hpp"
#include "app/display/plot_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/scales.hpp"
#include "app/figures/space_box.hpp"
#include "app/session/keyspace_view.hpp"

namespace keyscope::window {

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
void draw_space_frame(const DrawContext& context, const figures::Panel& panel, const figures::SpaceBox& box,
                      const figures::Orbit& orbit, const PlotView& view);

}  // namespace keyscope::window

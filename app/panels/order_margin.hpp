#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "app/panels/panel_context.hpp"
#include "app/display/plot_view.hpp"

namespace keyscope::window {

// What stands above an ordered matrix, as it does on the page of a file: its tree in thin lines, and below
// that full bars of retained keys, half as high those of evicted ones. It pans and zooms with the matrix.
class OrderMargin {
 public:
  // Another panel from now on.
  void set(const figures::Panel& panel);

  // What it takes above a plot, in pixels; 0: nothing stands there, or there is no room.
  float height(const PanelContext& context, float plot_height) const;

  //   view: of the matrix below
  void draw(const PanelContext& context, const PlotView& view, float height) const;

 private:
  void draw_tree(const PanelContext& context, const PlotView& view, float top, float bottom) const;

  std::vector<figures::Bracket> brackets_;
  std::vector<figures::RetentionRun> runs_;
};

}  // namespace keyscope::window

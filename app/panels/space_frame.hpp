#pragma once

#include "app/figures/figure.hpp"
#include "app/drawing/space.hpp"
#include "app/panels/panel_context.hpp"
#include "app/display/plot_view.hpp"
#include "app/session/turned_panel.hpp"

namespace keyscope::window {

// The box that points of space lie in, as it is seen: the edges that meet in its nearest corner are left out,
// and of each axis the edge that lies farthest outside has its name.
void draw_space_frame(const PanelContext& context, const figures::Panel& panel, const session::SpaceBox& box,
                      const figures::Orbit& orbit, const PlotView& view);

}  // namespace keyscope::window

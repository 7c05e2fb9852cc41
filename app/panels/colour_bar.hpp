#pragma once

#include "app/figures/figure.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The room that a heatmap's colour scale takes at the right of a plot of this height, in pixels.
float colour_bar_width(const PanelContext& context, const figures::Heatmap& heatmap, float height);

// The scale itself, with ticks and the name of what is shown; `bar.w` is the room above.
void draw_colour_bar(const PanelContext& context, const figures::Heatmap& heatmap, const Rect& bar);

}  // namespace keyscope::window

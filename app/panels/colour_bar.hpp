#pragma once

#include "app/figures/figure.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The room that a colour scale takes at the right of a plot of this height, in pixels.
float colour_bar_width(const PanelContext& context, const figures::ColourScale& scale, float height);

// The scale itself, with ticks and the name of what is shown; `bar.w` is the room above. Categories are
// blocks with their names, the first at the top.
void draw_colour_bar(const PanelContext& context, const figures::ColourScale& scale, const Rect& bar);

}  // namespace keyscope::window

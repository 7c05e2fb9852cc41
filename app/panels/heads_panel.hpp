#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The map of layers and KV heads, coloured by the chosen measure of the selected run; a click selects the
// head.
void draw_heads_panel(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

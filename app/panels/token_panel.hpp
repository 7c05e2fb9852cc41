#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The hovered or held token: its story, its place in the text, and the measures of the selected head.
void draw_token_panel(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

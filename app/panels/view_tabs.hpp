#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The row of views above the middle: a tab for those that are asked for most, a menu for all others. What was
// not recorded is dim, and says so.
void draw_view_tabs(PanelContext& context, const Rect& rect);

float view_tabs_height(const PanelContext& context);

}  // namespace keyscope::window

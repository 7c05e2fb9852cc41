#pragma once

#include "app/panels/actions.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The recording's name and facts at the left, what can be done at the right. Returns what was clicked, or
// null.
const Action* draw_top_bar(PanelContext& context, const Rect& rect);

// The last message, the work that goes on, hints for the mouse.
void draw_status_bar(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// What the top bar's buttons ask for.
enum class BarAction { kNone, kOpen, kLive, kExport, kTheme, kHelp };

// The recording's name and facts at the left, what can be done at the right.
BarAction draw_top_bar(PanelContext& context, const Rect& rect);

// The last message, the work that goes on, hints for the mouse.
void draw_status_bar(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

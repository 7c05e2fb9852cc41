#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The slider over the run's blocks, with play and pause.
void draw_timeline_panel(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

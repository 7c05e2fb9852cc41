#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// Progress, Pause or Run, Step and Cancel of a live run; nothing without one.
void draw_live_controls(PanelContext& context);
float live_controls_height(const PanelContext& context);

}  // namespace keyscope::window

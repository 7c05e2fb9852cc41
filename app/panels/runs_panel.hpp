#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The runs, one per policy, to switch between; while a model runs live also its progress and controls.
void draw_runs_panel(PanelContext& context, const Rect& rect);

// The height, in pixels, that shows all of it.
float runs_panel_height(const PanelContext& context);

}  // namespace keyscope::window

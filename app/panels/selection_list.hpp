#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The selected tokens with their texts, those that were evicted struck through; pointing at one hovers it, a
// click holds it. Draws nothing without a selection.
void draw_selection_list(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The text around the hovered or held token, else the end of what was read by the chosen block: evicted
// tokens struck out, those to come dim. Pointing at a token hovers it everywhere, a click holds it.
void draw_text_strip(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The height that a story takes, in pixels.
float story_height(const PanelContext& context);

// The story of the held token: its score after every block with the cut line, what it attended to, who
// attended to it, and what it would have received after its eviction. Tokens in it are pointed at and held by
// the mouse as everywhere. In a lower rectangle it scrolls.
void draw_story(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

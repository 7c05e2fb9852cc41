#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// How the key space is shown: projection, what colours say, and whether queries are there. What the recording
// does not hold is dim and says why.
void draw_keyspace_controls(PanelContext& context);

// The room that they take on one line, in pixels.
float keyspace_controls_width(const PanelContext& context);

}  // namespace keyscope::window

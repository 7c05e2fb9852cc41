#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// Two boxes side by side at the cursor: what the map of heads is coloured by, each measure with a line of
// explanation, and the run that it is compared with.
void draw_map_choice(PanelContext& context);

}  // namespace keyscope::window

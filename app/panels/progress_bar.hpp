#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// How far something is, as a bar on the window that is drawn in.
//   share: of the work, from 0 to 1
void draw_progress_bar(const PanelContext& context, ImVec2 at, ImVec2 size, double share);

}  // namespace keyscope::window

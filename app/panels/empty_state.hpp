#pragma once

#include <vector>

#include "app/panels/actions.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// What fills the window while nothing is open: what can be done, and what went wrong with the last try.
// Returns what was clicked, or null.
const Action* draw_empty_state(PanelContext& context, const Rect& rect,
                               const std::vector<session::RecentFile>& recent);

}  // namespace keyscope::window

#pragma once

#include "app/panels/bars.hpp"

namespace keyscope::window {

// What fills the window while nothing is open: what can be done, and what went wrong with the last try.
BarAction draw_empty_state(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

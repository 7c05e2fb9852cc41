#pragma once

#include "app/panels/panel_context.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::window {

// What is known of the token under the mouse, beside it and inside the plot where it fits.
void draw_token_tooltip(PanelContext& context, const session::TokenFacts& facts, const Rect& plot);

}  // namespace keyscope::window

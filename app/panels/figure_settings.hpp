#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// One line with the settings that the shown figure has, each a small control: ranks, scale, which keys, how
// tokens share a cell. Nothing for a figure without any.
void draw_figure_settings(PanelContext& context, const std::string& figure);

}  // namespace keyscope::window

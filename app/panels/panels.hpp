#pragma once

#include <vector>

#include "app/panels/actions.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/workspace.hpp"

namespace keyscope::window {

// The recording's name and facts at the left, what can be done at the right, with menus of views, panels and
// layouts. Returns what was clicked, or null.
const Action* draw_top_bar(PanelContext& context, Workspace& workspace);

// The last message, the work that goes on, hints for the mouse.
void draw_status_bar(PanelContext& context);

// What fills the window while nothing is open: what can be done, and what went wrong with the last try.
// Returns what was clicked, or null.
const Action* draw_empty_state(PanelContext& context, const Rect& rect,
                               const std::vector<session::RecentFile>& recent);

// The runs, one per policy, to switch between; while a model runs live also its progress and controls.
void draw_runs_panel(PanelContext& context);

// The height, in pixels, that shows all of it.
float runs_panel_height(const PanelContext& context);

// The map of layers and KV heads, coloured by the chosen measure of the selected run; a click selects the
// head.
void draw_heads_panel(PanelContext& context);

// What a policy would keep at a budget that is dragged, and how attention kept and log volume go with it.
void draw_budget_panel(PanelContext& context);

// The hovered or held token: its story, its place in the text, and the measures of the selected head.
void draw_token_panel(PanelContext& context, const Rect& rect);

// The height that a story takes, in pixels.
float story_height(const PanelContext& context);

// The story of the held token: its score after every block with the cut line, what it attended to, who
// attended to it, and what it would have received after its eviction. Tokens in it are pointed at and held by
// the mouse as everywhere. In a lower rectangle it scrolls.
void draw_story(PanelContext& context, const Rect& rect);

}  // namespace keyscope::window

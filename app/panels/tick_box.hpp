#pragma once

namespace keyscope::window {

struct PanelContext;

// A checkbox whose box is outlined, so that it stands out from the panel where it is not ticked. Returns
// whether it was clicked.
bool tick_box(const PanelContext& context, const char* label, bool* value);

}  // namespace keyscope::window

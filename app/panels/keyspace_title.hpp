#pragma once

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The head's name, what is to be known of the picture, and its controls: beside the name where they fit, else
// below it.
//   shown: may be null
void draw_keyspace_title(PanelContext& context, const session::KeyspacePicture* shown);

}  // namespace keyscope::window

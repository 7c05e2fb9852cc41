#pragma once

#include <string>
#include <vector>

#include "app/panels/palette_list.hpp"

namespace keyscope::window {

// Everything that can be asked for now: all actions, then the views, measures and runs of the recording, or
// the figures of the file, then earlier runs and recent files.
std::vector<PaletteEntry> palette_entries(const session::Session& session,
                                          const std::vector<session::RecentFile>& recent = {});

// What the typed text itself asks for: "layer 3 head 2". None where it is other words.
std::vector<PaletteEntry> typed_entries(const session::Session& session, const std::string& typed);

}  // namespace keyscope::window

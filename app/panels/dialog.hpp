#pragma once

namespace keyscope::window {

// What can lie over the panels; at most one does. The numbers stand in the state file.
enum class Dialog { kNone, kOpen, kExport, kLive, kHelp, kPalette };

}  // namespace keyscope::window

#pragma once

#include <cstdint>
#include <optional>

#include "app/display/draw_context.hpp"
#include "app/session/session.hpp"

namespace keyscope::window {

// What every panel draws with. Panels read the session and send it intents; they keep no data of their own.
struct PanelContext : DrawContext {
  session::Session& session;
  std::optional<std::int64_t> hovered = {};  // the token that some panel has under the cursor in this frame
  std::optional<std::int64_t> n_keys_shown = {};  // of those seen, where the middle leaves some out

  const session::SessionState& state() const { return session.state(); }
};

// What can lie over the panels; at most one does. The numbers stand in the state file.
enum class Dialog { kNone, kOpen, kExport, kLive, kHelp, kPalette, kSave };

}  // namespace keyscope::window

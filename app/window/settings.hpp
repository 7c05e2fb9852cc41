#pragma once

namespace keyscope::window {

// What the window remembers, in $XDG_CONFIG_HOME/keyscope/window.json (~/.config without it).
struct Settings {
  bool light = false;
};

Settings load_settings();  // the defaults where there is no readable file

// Fails silently: a read-only home is no reason to trouble anyone who closes a window.
void save_settings(const Settings& settings);

}  // namespace keyscope::window

#pragma once

#include <filesystem>

namespace keyscope::window {

// What the window remembers of itself, in window.json of the settings' folder.
struct Settings {
  bool light = false;
  int width = 0, height = 0;  // pixels; 0: to suit the monitor
  bool operator==(const Settings&) const = default;
};

// The defaults for whatever is missing, or makes no sense.
//   folder: as session::settings_folder has it; empty: none
Settings load_settings(const std::filesystem::path& folder);

// Fails silently: a read-only home is no reason to trouble anyone who closes a window.
void save_settings(const std::filesystem::path& folder, const Settings& settings);

}  // namespace keyscope::window

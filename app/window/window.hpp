#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "app/figures/keyspace_data.hpp"
#include "app/session/live_request.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/selection.hpp"
#include "app/window/window_app.hpp"

namespace keyscope::window {

// What the window opens with; everything may be empty, then it says what can be done.
struct WindowRequest {
  std::filesystem::path path;                // a recording or a figure file
  std::optional<session::LiveRequest> live;  // a model to run; started at once if it has model and prompt
  session::SelectionRequest selection;       // by the command line's names
  std::string view;  // of a recording, one of session::view_choices(); empty: key space
  figures::KeyspaceLook look;
  session::FigureSettings settings;
  std::string layout;  // one of named_layouts(), or the user's own; empty: as it was left
  bool fresh = false;  // whatever was left of the recording
  int width = 0;       // pixels; 0: to suit the monitor
  int height = 0;
  float scale = 0;                   // of fonts and spacing; 0: the monitor's
  std::optional<bool> light;         // theme; not given: as it was left
  std::filesystem::path screenshot;  // draw off screen, save a PNG once all results are in, and return
  bool replace_screenshot = false;   // whether an existing file may be replaced
  std::filesystem::path state_file;  // JSON of what is shown, rewritten on every change: for tests
};

// Whether there is a display to open a window on.
bool has_display();

// Opens the window and returns when it is closed, with the process's exit status. Call on the main thread.
//   throws Error without a display or without OpenGL 3.3, saying what to do; in screenshot mode also
//   FileError, with what could not be opened or written, UsageError, with what is not there to be shown, and
//   Cancelled after request_close of app/window/loop.hpp
int run_window(const WindowRequest& request);

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

inline constexpr int kSettlingFrames = 3;  // ImGui needs some until a change of layout has settled

// Draws when there was input, news from a worker, or something that moves; sleeps otherwise. Ends when the
// window is closed, or when there was something to look at and `done` says so.
void run_loop(WindowApp& app, const std::function<bool()>& done = {});

// Closes the window that is open as its user would. Safe from any thread.
void request_close();
bool close_requested();

}  // namespace keyscope::window

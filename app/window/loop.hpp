#pragma once

#include <functional>

#include "app/window/window_app.hpp"

namespace keyscope::window {

inline constexpr int kSettlingFrames = 3;  // ImGui needs some until a change of layout has settled

// Draws when there was input, news from a worker, or something that moves; sleeps otherwise. Ends when the
// window is closed, or when there was something to look at and `done` says so.
void run_loop(WindowApp& app, const std::function<bool()>& done = {});

// Closes the window that is open as its user would. Safe from any thread.
void request_close();
bool close_requested();

}  // namespace keyscope::window

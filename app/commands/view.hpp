#pragma once

#include <string>

#include "app/commands/capture_options.hpp"
#include "app/session/live_request.hpp"

namespace keyscope::commands {

struct WindowSize {
  int width = 0, height = 0;
};

// "1280x800", in pixels.
//   throws UsageError where it is none, or one that no window could have
WindowSize parse_window_size(const std::string& text);

// The name of a view of the window, from it or a figure's alias such as `fig2`.
//   throws UsageError naming those that there are
std::string view_name(const std::string& name);

// A live run as the command line asks for it. The prompt is read here, before a window opens, so that a wrong
// path is known at once; it becomes ids when the worker has loaded the model. A prompt may be missing: the
// window asks for it.
//   out: also recorded into this file; empty: in memory only
//   throws UsageError and FileError, naming the option
session::LiveRequest live_request(const CaptureCommandOptions& options, const std::string& out, bool replace);

}  // namespace keyscope::commands

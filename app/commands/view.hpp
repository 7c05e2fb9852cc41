#pragma once

#include <string>

#include "app/commands/capture_options.hpp"
#include "app/session/live_capture.hpp"

namespace keyscope::commands {

// A live run as the command line asks for it. The prompt is read here, before a window opens, so that a wrong
// path is known at once; it becomes ids when the worker has loaded the model. A prompt may be missing: the
// window asks for it.
//   out: also recorded into this file; empty: in memory only
//   throws UsageError and FileError, naming the option
session::LiveRequest live_request(const CaptureCommandOptions& options, const std::string& out, bool replace);

}  // namespace keyscope::commands

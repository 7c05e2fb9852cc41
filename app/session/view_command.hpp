#pragma once

#include <string>
#include <string_view>

#include "app/session/session.hpp"

namespace keyscope::session {

// The command line that shows again what is shown now, in words that a POSIX shell reads back, with the
// file's absolute path: `keyscope figure FILE NAME … --out NAME.svg` where a figure of one run is shown,
// otherwise `keyscope view FILE … --view NAME`, with the runs beside it and the figure's settings.
//   state: of something that is open and has a file
std::string view_command(const SessionState& state);

// The command line that writes the key space as it is shown into a file, a panel for each run.
std::string keyspace_command(const SessionState& state);

// Why there is no such command; empty where there is one.
std::string_view view_command_refusal(const SessionState& state);

}  // namespace keyscope::session

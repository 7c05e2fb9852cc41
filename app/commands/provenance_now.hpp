#pragma once

#include "capture/recording/recording.hpp"

namespace keyscope::commands {

// Where results come from that are made now: this program's version, the command line and the time, UTC.
recording::Provenance provenance_now();

}  // namespace keyscope::commands

#pragma once

#include "capture/recording/recording.hpp"
#include "tests/capture/recording/synthetic_capture.hpp"

namespace keyscope::recording {

// Expects of a recording that was cut short what the same capture looks like in memory when each run has had
// as many blocks as the recording counts.
void expect_holds_counted_blocks(const Recording& recording, const SyntheticCapture& capture);

}  // namespace keyscope::recording

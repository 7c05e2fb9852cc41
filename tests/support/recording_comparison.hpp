#pragma once

#include "capture/recording/recording.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

// Whether two recordings are of one capture, or of two that were made at their own times.
enum class Times { kSame, kOwn };

// Asks both for everything a recording can be asked, and expects the same answers, bit for bit.
void expect_same(const Recording& expected, const Recording& found, Times times = Times::kSame);

// Expects of a recording that was cut short what the same capture looks like in memory when each run has had
// as many blocks as the recording counts.
void expect_holds_counted_blocks(const Recording& recording, const SyntheticCapture& capture);

}  // namespace keyscope::recording

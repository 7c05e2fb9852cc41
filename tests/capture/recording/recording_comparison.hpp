#pragma once

#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// Asks both for everything a recording can be asked, and expects the same answers, bit for bit.
void expect_same(const Recording& expected, const Recording& found);

}  // namespace keyscope::recording

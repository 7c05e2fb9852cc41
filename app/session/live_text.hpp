#pragma once

#include <string>
#include <string_view>

#include "app/session/live.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// "12 s", "3 min 05 s", "2 h 07 min".
std::string duration_text(double seconds);

// "812 tokens/s", "2.5 layers/s".
//   unit: what is counted, in the plural
std::string rate_text(double per_second, std::string_view unit);

// Where a live run stands: "keydiff, block 5 of 16, 812 tokens/s, 12 s left", and while it generates
// "keydiff, token 3 of 64: …ing door·".
//   info: of what it recorded so far
std::string describe_live(const LiveStatus& status, const recording::RecordingInfo& info);

// The share of the work that is done, from 0 to 1.
double share_done(const LiveStatus& status);

}  // namespace keyscope::session

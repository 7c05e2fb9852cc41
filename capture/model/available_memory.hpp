#pragma once

#include <cstdint>

namespace keyscope::capture {

// Bytes that can still be taken without swapping: what the kernel calls available, or what is left of the
// control group's limit if that is less. The largest int64 where neither is known.
std::int64_t available_memory();

}  // namespace keyscope::capture

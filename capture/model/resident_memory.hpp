#pragma once

#include <cstdint>

namespace keyscope::capture {

// The high-water mark of this process's resident memory since it was started, in bytes: pages of mapped
// files included.
//   throws Error where the system does not tell
std::int64_t peak_resident_memory();

}  // namespace keyscope::capture

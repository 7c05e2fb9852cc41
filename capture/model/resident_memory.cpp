#include "capture/model/resident_memory.hpp"

#include <fstream>
#include <string>

#include "base/errors.hpp"

namespace keyscope::capture {

std::int64_t peak_resident_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return 1024 * kibibytes;
  }
  throw Error("/proc/self/status: VmHWM is missing; expected the process's peak of resident memory");
}

}  // namespace keyscope::capture

#include "capture/model/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace keyscope::capture {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

// The number after `key` in a file of such pairs; `otherwise` where there is none.
std::int64_t find_number(const char* path, const std::string& key, std::int64_t otherwise) {
  std::ifstream file(path);
  std::string word;
  while (file >> word)
    if (std::int64_t number = 0; word == key && file >> number) return number;
  return otherwise;
}

std::int64_t read_number(const char* path, std::int64_t otherwise) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : otherwise;  // "max": no limit
}

// Pages of files count as used by a control group, and are given up when memory is needed.
std::int64_t left_of_control_group() {
  const std::int64_t limit = read_number("/sys/fs/cgroup/memory.max", kUnknown);
  if (limit == kUnknown) return kUnknown;
  const std::int64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
  const std::int64_t of_files = find_number("/sys/fs/cgroup/memory.stat", "file", 0);
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used - of_files));
}

}  // namespace

std::int64_t available_memory() {
  const std::int64_t kib = find_number("/proc/meminfo", "MemAvailable:", kUnknown / 1024);
  return std::min(kib * 1024, left_of_control_group());
}

}  // namespace keyscope::capture

#include "capture/model/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::capture {

Residency choose_residency(const WeightBytes& needed, bool may_stream, std::int64_t available) {
  // Room for what works on the weights, where there is another way.
  const std::int64_t spare = may_stream ? available / 5 : 0;
  if (needed.all <= available - spare) return Residency::kWhole;
  if (may_stream && needed.streamed() <= available) return Residency::kStreamed;
  const std::string advice = !may_stream && needed.streamed() <= available
                                 ? fmt::format("the layer schedule (capture --schedule layer) would need {}",
                                               gib_text(needed.streamed(), 1))
                                 : std::string("choose a smaller model or a narrower --dtype");
  throw Error(fmt::format("the weights need {} of memory under the {} schedule, and {} are available; {}",
                          gib_text(may_stream ? needed.streamed() : needed.all, 1),
                          may_stream ? "layer" : "block", gib_text(available, 1), advice));
}

std::int64_t peak_resident_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return 1024 * kibibytes;
  }
  throw Error("/proc/self/status: VmHWM is missing; expected the process's peak of resident memory");
}

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

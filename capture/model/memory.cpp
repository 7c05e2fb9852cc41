#include "capture/model/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

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

namespace fs = std::filesystem;

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

// The number after `key` in a file of such pairs; `otherwise` where there is none.
std::int64_t find_number(const fs::path& path, const std::string& key, std::int64_t otherwise) {
  std::ifstream file(path);
  std::string word;
  while (file >> word)
    if (std::int64_t number = 0; word == key && file >> number) return number;
  return otherwise;
}

std::int64_t read_number(const fs::path& path, std::int64_t otherwise) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : otherwise;  // "max": no limit
}

// How the two versions of control groups call the same things.
struct GroupFiles {
  std::vector<const char*> limits;
  const char* used;
  std::string files;  // begins the names of what files' pages take
};
const GroupFiles kVersion1{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_"};
const GroupFiles kVersion2{{"memory.max", "memory.high"}, "memory.current", ""};

// Pages of files count as used by a control group, and are given up when memory is needed.
std::int64_t left_in(const fs::path& group, const GroupFiles& names) {
  std::int64_t limit = kUnknown;
  for (const char* name : names.limits) limit = std::min(limit, read_number(group / name, kUnknown));
  if (limit == kUnknown) return kUnknown;
  std::int64_t used = read_number(group / names.used, 0);
  for (const char* kind : {"active_file", "inactive_file"})
    used -= find_number(group / "memory.stat", names.files + kind, 0);
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used));
}

// Where a hierarchy of control groups that limits memory is mounted, and which of its groups is seen there as
// the topmost.
struct Hierarchy {
  fs::path mounted, top;
};

bool lists(std::string_view commas, std::string_view word) {
  for (std::size_t at = 0; at <= commas.size();) {
    const std::size_t end = std::min(commas.find(',', at), commas.size());
    if (commas.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

// From /proc/self/mountinfo: ID PARENT DEVICE TOP MOUNTED OPTIONS [FIELD…] - TYPE SOURCE OPTIONS
std::optional<Hierarchy> find_hierarchy(const fs::path& root, bool version_2) {
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string skipped, top, mounted, word, type, options;
    fields >> skipped >> skipped >> skipped >> top >> mounted;
    while (fields >> word && word != "-") {
    }
    fields >> type >> skipped >> options;
    if (version_2 ? type == "cgroup2" : type == "cgroup" && lists(options, "memory"))
      return Hierarchy{root / fs::path(mounted).relative_path(), top};
  }
  return std::nullopt;
}

// From /proc/self/cgroup: NUMBER:CONTROLLERS:GROUP, where version 2 names no controllers.
std::optional<fs::path> find_group(const fs::path& root, bool version_2) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version_2 ? controllers.empty() : lists(controllers, "memory")) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The least that the process's own group and those that it lies in leave it. Of a group that is not to be
// seen, as in a container, those of its parents that are.
std::int64_t left_of_control_groups(const fs::path& root, bool version_2) {
  const auto hierarchy = find_hierarchy(root, version_2);
  const auto group = find_group(root, version_2);
  if (!hierarchy || !group) return kUnknown;
  fs::path within = group->lexically_relative(hierarchy->top);
  if (within.empty() || *within.begin() == "..") within = ".";
  std::int64_t left = kUnknown;
  for (fs::path at = (hierarchy->mounted / within).lexically_normal();; at = at.parent_path()) {
    left = std::min(left, left_in(at, version_2 ? kVersion2 : kVersion1));
    if (at == hierarchy->mounted || at == at.parent_path()) return left;
  }
}

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  const std::int64_t kib = find_number(root / "proc/meminfo", "MemAvailable:", kUnknown / 1024);
  return std::min({kib * 1024, left_of_control_groups(root, false), left_of_control_groups(root, true)});
}

}  // namespace keyscope::capture

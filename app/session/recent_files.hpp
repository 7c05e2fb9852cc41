#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace keyscope::session {

// A file that was opened, by its absolute path.
struct RecentFile {
  std::string path;
  bool missing = false;
  bool operator==(const RecentFile&) const = default;
};

inline constexpr std::size_t kMostRecent = 12;

// Files that were opened, the last one first, as `file` (JSON) has them. Anything in it that is no absolute
// path is left out, so is what stands there twice. Asks the disk which are missing: on a worker's thread,
// because a network folder may take its time.
std::vector<RecentFile> read_recent(const std::filesystem::path& file);

// Puts a path first and writes the list. Where there are more than kMostRecent, those that are missing go
// first, then the oldest. What another window noted meanwhile stays.
void note_recent(const std::filesystem::path& file, const std::string& path);

}  // namespace keyscope::session

#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/jobs.hpp"

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

// The files that were opened last, for the empty window and the palette. The disk is asked on a worker's
// thread.
class RecentList {
 public:
  //   file: where the list is kept; empty: there is none, and nothing is written
  //   wake: called on the worker's thread when the list has changed
  RecentList(std::filesystem::path file, std::function<void()> wake);

  // Puts a path first, once it was opened; the same again does nothing.
  void note(const std::string& path);
  void refresh();  // looks again which are missing

  std::vector<RecentFile> files() const;

 private:
  void post(const std::string& opened);

  std::filesystem::path file_;
  std::function<void()> wake_;
  std::string noted_;
  mutable std::mutex mutex_;
  std::vector<RecentFile> files_;
  JobQueue worker_{JobQueue::Priority::kLow};  // last: ends before what it uses
};

}  // namespace keyscope::session

#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "app/session/job_queue.hpp"
#include "app/session/recent_files.hpp"

namespace keyscope::window {

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

  std::vector<session::RecentFile> files() const;

 private:
  void post(std::string opened);

  std::filesystem::path file_;
  std::function<void()> wake_;
  std::string noted_;
  mutable std::mutex mutex_;
  std::vector<session::RecentFile> files_;
  session::JobQueue worker_{session::JobQueue::Priority::kLow};  // last: ends before what it uses
};

}  // namespace keyscope::window

#include "app/panels/recent_list.hpp"

#include <exception>
#include <utility>

namespace keyscope::window {

RecentList::RecentList(std::filesystem::path file, std::function<void()> wake)
    : file_(std::move(file)), wake_(std::move(wake)) {
  refresh();
}

void RecentList::note(const std::string& path) {
  if (path.empty() || path == noted_) return;
  noted_ = path;
  post(path);
}

void RecentList::refresh() { post({}); }

// Every path is a kind of job of its own, so that none is replaced while it waits.
void RecentList::post(std::string opened) {
  if (file_.empty()) return;
  worker_.post("recent " + opened, [this, opened] {
    try {
      if (!opened.empty()) session::note_recent(file_, opened);
      auto files = session::read_recent(file_);
      {
        std::lock_guard lock(mutex_);
        files_ = std::move(files);
      }
      if (wake_) wake_();
    } catch (const std::exception&) {
      // The list is a convenience; the one that is shown stays.
    }
  });
}

std::vector<session::RecentFile> RecentList::files() const {
  std::lock_guard lock(mutex_);
  return files_;
}

}  // namespace keyscope::window

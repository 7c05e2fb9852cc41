#include "app/session/recent_files.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/session/remembered.hpp"
#include "base/files.hpp"

namespace keyscope::session {

namespace fs = std::filesystem;

namespace {

bool is_missing(const std::string& path) {
  std::error_code error;
  return !fs::exists(path, error);
}

void add(std::vector<RecentFile>& files, const std::string& path) {
  if (std::ranges::find(files, path, &RecentFile::path) == files.end())
    files.push_back({path, is_missing(path)});
}

// The oldest missing one, or the oldest.
void drop_one(std::vector<RecentFile>& files) {
  const auto missing = std::ranges::find(files.rbegin(), files.rend(), true, &RecentFile::missing);
  files.erase(missing != files.rend() ? std::prev(missing.base()) : std::prev(files.end()));
}

}  // namespace

std::vector<RecentFile> read_recent(const fs::path& file) {
  std::vector<RecentFile> files;
  const nlohmann::json json = read_settings(file);
  const auto list = json.find("recent");
  if (list == json.end() || !list->is_array()) return files;
  for (const auto& entry : *list) {
    if (files.size() == kMostRecent) break;
    if (!entry.is_string()) continue;
    const auto path = entry.get<std::string>();
    if (path.starts_with('/') && path.find('\0') == std::string::npos) add(files, path);
  }
  return files;
}

void note_recent(const fs::path& file, const std::string& path) {
  const fs::path full = full_path(path);
  if (!full.is_absolute()) return;
  std::vector<RecentFile> files;
  add(files, full.string());
  for (const RecentFile& earlier : read_recent(file)) add(files, earlier.path);
  while (files.size() > kMostRecent) drop_one(files);
  nlohmann::json list = nlohmann::json::array();
  for (const RecentFile& kept : files) list.push_back(kept.path);
  write_settings(file, {{"recent", list}});
}

RecentList::RecentList(fs::path file, std::function<void()> wake)
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
void RecentList::post(const std::string& opened) {
  if (file_.empty()) return;
  worker_.post("recent " + opened, [this, opened] {
    try {
      if (!opened.empty()) note_recent(file_, opened);
      auto files = read_recent(file_);
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

std::vector<RecentFile> RecentList::files() const {
  std::lock_guard lock(mutex_);
  return files_;
}

}  // namespace keyscope::session

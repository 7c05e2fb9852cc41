#include "app/session/recent_files.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>

#include <nlohmann/json.hpp>

#include "app/session/settings_file.hpp"

namespace keyscope::session {
namespace {

namespace fs = std::filesystem;

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
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  if (error) return;
  std::vector<RecentFile> files;
  add(files, full.lexically_normal().string());
  for (const RecentFile& earlier : read_recent(file)) add(files, earlier.path);
  while (files.size() > kMostRecent) drop_one(files);
  nlohmann::json list = nlohmann::json::array();
  for (const RecentFile& kept : files) list.push_back(kept.path);
  write_settings(file, {{"recent", list}});
}

}  // namespace keyscope::session

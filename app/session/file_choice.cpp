#include "app/session/file_choice.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/figures/nexus.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::session {

namespace fs = std::filesystem;

namespace {

FolderEntry describe_file(const fs::path& path) {
  FolderEntry entry{path.filename().string(), 0, {}};
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return entry;
  entry.bytes = about.st_size;
  std::tm local{};
  if (::localtime_r(&about.st_mtime, &local) != nullptr)
    entry.changed = fmt::format("{:%Y-%m-%d %H:%M}", local);
  return entry;
}

}  // namespace

FolderList list_folder(const fs::path& folder) {
  std::error_code error;
  FolderList list{fs::absolute(folder, error).lexically_normal(), {}, {}};
  std::vector<FolderEntry> folders, files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(".")) continue;
    if (entry->is_directory(ignored))
      folders.push_back({name + "/", 0, {}});
    else if (figures::is_nexus_path(name) || name.ends_with(".h5.part"))
      files.push_back(describe_file(entry->path()));
  }
  if (error) list.error = fmt::format("{}: {}", folder.string(), error.message());
  std::ranges::sort(folders, {}, &FolderEntry::name);
  std::ranges::sort(files, {}, &FolderEntry::name);
  if (list.folder.has_relative_path()) list.entries.push_back({"../", 0, {}});
  std::ranges::copy(files, std::back_inserter(list.entries));
  std::ranges::copy(folders, std::back_inserter(list.entries));
  return list;
}

TypedPath read_typed_path(const fs::path& folder, const std::string& text) {
  const auto slash = text.rfind('/');
  if (slash == std::string::npos) return {folder, text};
  std::string above = text.substr(0, slash + 1);
  if (const char* home = std::getenv("HOME"); home != nullptr && above.starts_with("~/"))
    above = home + above.substr(1);
  const fs::path other = folder / above;
  std::error_code error;
  if (!fs::is_directory(other, error)) return {folder, text};
  return {other.lexically_normal(), text.substr(slash + 1)};
}

std::vector<FolderEntry> entries_with(const FolderList& list, const std::string& part) {
  if (part.empty()) return list.entries;
  std::vector<FolderEntry> found;
  for (const FolderEntry& entry : list.entries)
    if (entry.name != "../" && lower_case(entry.name).find(lower_case(part)) != std::string::npos)
      found.push_back(entry);
  return found;
}

namespace {

// Of a variable that lists them, with colons between.
std::vector<fs::path> folders_in(const char* variable, std::string_view usual) {
  const char* value = std::getenv(variable);
  std::vector<fs::path> folders;
  for (std::string_view rest = value == nullptr || *value == '\0' ? usual : value; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

bool is_on_path(std::string_view program) {
  return std::ranges::any_of(folders_in("PATH", ""), [&](const fs::path& folder) {
    return ::access((folder / program).c_str(), X_OK) == 0;
  });
}

std::atomic<bool> portal_is_broken = false;  // it was asked, and there was nobody

// Whether the desktop offers its dialog for files to other programs: a backend of its portal says so.
bool has_portal() {
  if (std::getenv("DBUS_SESSION_BUS_ADDRESS") == nullptr) return false;
  std::error_code error;
  for (const fs::path& folder : folders_in("XDG_DATA_DIRS", "/usr/local/share:/usr/share"))
    for (const auto& entry : fs::directory_iterator(folder / "xdg-desktop-portal/portals", error))
      if (entry.path().extension() == ".portal" &&
          read_file(entry.path()).find("org.freedesktop.impl.portal.FileChooser") != std::string::npos)
        return true;
  return false;
}

}  // namespace

std::string DesktopDialog::program() {
  const char* desktop = std::getenv("XDG_CURRENT_DESKTOP");
  if (desktop == nullptr || *desktop == '\0') return {};
  static const bool portal = has_portal();
  if (portal && !portal_is_broken) return "portal";
  const bool kde = lower_case(desktop).find("kde") != std::string::npos;
  for (const char* program : kde ? std::array{"kdialog", "zenity"} : std::array{"zenity", "kdialog"})
    if (is_on_path(program)) return program;
  return {};
}

std::vector<std::string> DesktopDialog::command(const std::string& program, const Request& request) {
  if (program == "portal") {
    const char* const kinds[] = {"open", "save", "folder"};
    std::vector<std::string> words{
        "/proc/self/exe", "choose-file", "--kind", kinds[static_cast<int>(request.kind)],
        "--title",        request.title, "--at",   request.at.string()};
    for (const std::string& pattern : request.patterns) words.insert(words.end(), {"--pattern", pattern});
    return words;
  }
  if (program == "kdialog") {
    const char* const kinds[] = {"--getopenfilename", "--getsavefilename", "--getexistingdirectory"};
    std::vector<std::string> words{program, "--title", request.title, kinds[static_cast<int>(request.kind)],
                                   request.at.string()};
    if (!request.patterns.empty()) words.push_back(fmt::format("{}", fmt::join(request.patterns, " ")));
    return words;
  }
  std::vector<std::string> words{program, "--file-selection", "--title=" + request.title,
                                 "--filename=" + request.at.string()};
  if (request.kind == Kind::kSave) words.insert(words.end(), {"--save", "--confirm-overwrite"});
  if (request.kind == Kind::kFolder) words.emplace_back("--directory");
  if (!request.patterns.empty()) {
    words.push_back(fmt::format("--file-filter={}", fmt::join(request.patterns, " ")));
    words.emplace_back("--file-filter=*");
  }
  return words;
}

bool DesktopDialog::ask(const Request& request) {
  const std::string name = program();
  if (name.empty()) return false;
  if (is_open()) return true;
  if (reader_.joinable()) reader_.join();
  try {
    const std::lock_guard lock(mutex_);
    child_ = std::make_unique<ChildProgram>(command(name, request), ChildProgram::Output::kRead);
    chosen_.reset();
  } catch (const FileError&) {
    return false;
  }
  reader_ = std::thread([this, child = child_.get(), name] {
    std::string text = child->read();
    {
      const std::lock_guard lock(mutex_);
      const int status = child->wait();
      child_.reset();
      if (name == "portal" && status == 1) portal_is_broken = true;
      if (text.ends_with('\n')) text.pop_back();
      if (status == 0 && !text.empty()) chosen_ = std::move(text);
    }
    if (wake_) wake_();
  });
  return true;
}

bool DesktopDialog::is_open() const {
  const std::lock_guard lock(mutex_);
  return child_ != nullptr;
}

std::optional<std::string> DesktopDialog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(chosen_, std::nullopt);
}

DesktopDialog::~DesktopDialog() {
  {
    const std::lock_guard lock(mutex_);
    if (child_) child_->end();
  }
  if (reader_.joinable()) reader_.join();
}

}  // namespace keyscope::session

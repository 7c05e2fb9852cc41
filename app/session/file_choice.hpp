#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/program.hpp"

namespace keyscope::session {

// Choosing a file: from a folder's list, or by the desktop's own dialog.

// What can be opened from a folder: recordings, also those of a killed capture, figures, and other folders.
struct FolderEntry {
  std::string name;  // a folder's ends with a slash
  std::int64_t bytes = 0;
  std::string changed;  // "2026-11-28 08:15", local time; empty of folders

  bool is_folder() const { return name.ends_with('/'); }
};

struct FolderList {
  std::filesystem::path folder;      // absolute
  std::vector<FolderEntry> entries;  // the folder above, files, then folders, by name
  std::string error;                 // why it cannot be read
};
FolderList list_folder(const std::filesystem::path& folder);

// What is typed while a folder is listed: another folder to list, and what names there must contain.
struct TypedPath {
  std::filesystem::path folder;
  std::string part;  // any case; empty: all
};
TypedPath read_typed_path(const std::filesystem::path& folder, const std::string& text);

// The entries that contain the part; the folder above only where nothing is typed.
std::vector<FolderEntry> entries_with(const FolderList& list, const std::string& part);

// The desktop's dialog for files: its portal's (by way of `keyscope choose-file`), zenity's or kdialog's, as
// a process of its own: only where a desktop runs that has one. What is chosen is taken later; the thread
// that asks never waits.
class DesktopDialog {
 public:
  enum class Kind { kOpen, kSave, kFolder };
  struct Request {
    Kind kind = Kind::kOpen;
    std::string title;
    std::filesystem::path at;           // where it begins; of kSave with the proposed name
    std::vector<std::string> patterns;  // "*.h5"; empty: all files
  };

  // wake: called on the dialog's thread when it was closed
  explicit DesktopDialog(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~DesktopDialog();
  DesktopDialog(const DesktopDialog&) = delete;
  DesktopDialog& operator=(const DesktopDialog&) = delete;

  // "portal", or the program's name; empty where there is none, or no desktop.
  static std::string program();
  // Its arguments, itself the first.
  static std::vector<std::string> command(const std::string& program, const Request& request);

  // Opens it, unless one is open already.
  //   returns false where it cannot be started
  bool ask(const Request& request);
  bool is_open() const;
  // What was chosen since the last call; nullopt: nothing, or it was closed.
  std::optional<std::string> take();

 private:
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::unique_ptr<ChildProgram> child_;  // none where it is closed
  std::optional<std::string> chosen_;
  std::thread reader_;
};

}  // namespace keyscope::session

#include "capture/recording/output_path.hpp"

#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::recording {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path output_path(const fs::path& path, bool replace) {
  std::error_code error;
  if (!fs::is_directory(folder_of(path), error))
    throw FileError(fmt::format("{}: its folder does not exist; make it first", path.string()));
  const fs::file_status named = fs::symlink_status(path, error);
  if (!fs::exists(named)) return path;
  if (fs::is_directory(path, error))
    throw FileError(fmt::format("{}: is a folder, expected the name of a file to write", path.string()));
  if (!fs::is_regular_file(path, error))
    throw FileError(fmt::format("{}: is there and no regular file; choose another name", path.string()));
  if (!replace)
    throw FileError(
        fmt::format("{}: exists already; choose another name, or replace it with --force", path.string()));
  return fs::is_symlink(named) ? fs::canonical(path) : path;
}

}  // namespace keyscope::recording

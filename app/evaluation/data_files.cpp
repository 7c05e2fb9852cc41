#include "app/evaluation/data_files.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".jsonl") files.push_back(at->path());
  if (error) throw FileError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  if (files.empty())
    throw FileError(
        fmt::format("{}: the folder has no *.jsonl; expected files of JSON lines", folder.string()));
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<fs::path> data_files(std::span<const fs::path> given) {
  std::vector<fs::path> files;
  for (const fs::path& path : given) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw FileError(
          fmt::format("{}: is not there; expected a file of JSON lines, or a folder", path.string()));
    if (fs::is_directory(path, ignored))
      std::ranges::copy(files_of(path), std::back_inserter(files));
    else
      files.push_back(path);
  }
  return files;
}

}  // namespace keyscope::evaluation

#pragma once

#include <filesystem>

namespace keyscope::recording {

// A folder of one test's own, removed with all that it holds.
class ScratchFolder {
 public:
  // parent: where to make it; by default the place for temporary files
  explicit ScratchFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path());
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace keyscope::recording

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace keyscope::test {

struct CliResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out, err;
};

// Runs the built `keyscope` with these arguments, stdin from `input`, in `folder`.
CliResult run_cli(const std::vector<std::string>& arguments, const std::string& input = "",
                  const std::filesystem::path& folder = ".");

// A new, empty folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace keyscope::test

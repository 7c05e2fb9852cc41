#pragma once

#include <filesystem>
#include <string_view>

namespace keyscope::figures {

// A file that appears under its name when it is complete, and not before: until then it lies beside it, under
// a name that no other process and no recording's `.part` has.
class OutputFile {
 public:
  //   replace: whether an existing file may be replaced
  //   throws FileError where it exists and may not be replaced, or is a folder, or its folder is not there
  OutputFile(std::filesystem::path path, bool replace);
  ~OutputFile();  // what was not committed is removed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& part() const { return part_; }

  // Gives the written file its name, once its bytes are on the disk.
  //   throws FileError if that fails, or if `replace` was not given and a file has appeared meanwhile
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path part_;
  bool replace_;
  bool committed_ = false;
};

// Figures never replace what they are made of, whatever was asked for.
//   throws UsageError where both paths are one file
void refuse_same_file(const std::filesystem::path& source, const std::filesystem::path& out);

// Writes bytes as a whole file by way of OutputFile.
void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace);

}  // namespace keyscope::figures

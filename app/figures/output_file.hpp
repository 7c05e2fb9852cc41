#pragma once

#include <filesystem>
#include <string_view>

namespace keyscope::figures {

// A file that appears under its name when it is complete, and not before: until then it lies beside it, under
// a name that no other process and no recording's `.part` has.
class OutputFile {
 public:
  //   throws FileError as recording::output_path does
  OutputFile(const std::filesystem::path& path, bool replace);
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

// Nothing replaces what it is made of, whatever was asked for.
//   option: which one names `out`, for the message
//   throws UsageError where both paths are one file
void refuse_same_file(const std::filesystem::path& source, const std::filesystem::path& out,
                      std::string_view option = "--out");

// Writes bytes as a whole file by way of OutputFile.
void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace);

}  // namespace keyscope::figures

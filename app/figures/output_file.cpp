#include "app/figures/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::figures {
namespace {

namespace fs = std::filesystem;

// Onto the disk, so that the rename cannot overtake the bytes.
void sync_file(const fs::path& part, const fs::path& path) {
  const int descriptor = ::open(part.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced)
    throw FileError(fmt::format("{}: could not be written: {}", path.string(), std::strerror(reason)));
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, bool replace)
    : path_(recording::output_path(path, replace)),
      part_(fmt::format("{}.{}.part", path_.string(), ::getpid())),
      replace_(replace) {}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!committed_) fs::remove(part_, error);
}

void OutputFile::commit() {
  sync_file(part_, path_);
  recording::output_path(path_, replace_);
  std::error_code error;
  fs::rename(part_, path_, error);
  if (error)
    throw FileError(
        fmt::format("{}: could not be renamed from {}: {}", path_.string(), part_.string(), error.message()));
  committed_ = true;
}

void refuse_same_file(const fs::path& source, const fs::path& out, std::string_view option) {
  std::error_code error;
  if (fs::equivalent(source, out, error))
    throw UsageError(
        fmt::format("{} {}: that is the file that is read; choose another name", option, out.string()));
}

void write_file(const fs::path& path, std::string_view bytes, bool replace) {
  OutputFile output(path, replace);
  std::ofstream file(output.part(), std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw FileError(fmt::format("{}: could not be written: {}", path.string(), std::strerror(errno)));
  output.commit();
}

}  // namespace keyscope::figures

#include "app/figures/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "analysis/errors.hpp"

namespace keyscope::figures {
namespace {

namespace fs = std::filesystem;

void require_free(const fs::path& path, bool replace) {
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    throw FileError(fmt::format("{}: its folder does not exist; make it first", path.string()));
  if (fs::is_directory(path, error))
    throw FileError(fmt::format("{}: is a folder, expected the name of a file to write", path.string()));
  if (!replace && fs::exists(path, error))
    throw FileError(
        fmt::format("{}: exists already; choose another name, or replace it with --force", path.string()));
}

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

OutputFile::OutputFile(fs::path path, bool replace)
    : path_(std::move(path)),
      part_(fmt::format("{}.{}.part", path_.string(), ::getpid())),
      replace_(replace) {
  require_free(path_, replace_);
}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!committed_) fs::remove(part_, error);
}

void OutputFile::commit() {
  sync_file(part_, path_);
  require_free(path_, replace_);
  std::error_code error;
  fs::rename(part_, path_, error);
  if (error)
    throw FileError(
        fmt::format("{}: could not be renamed from {}: {}", path_.string(), part_.string(), error.message()));
  committed_ = true;
}

void refuse_same_file(const fs::path& source, const fs::path& out) {
  std::error_code error;
  if (fs::equivalent(source, out, error))
    throw UsageError(
        fmt::format("--out {}: that is the recording itself; choose another name", out.string()));
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

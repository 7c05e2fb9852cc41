#include "capture/recording/part_file.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"

namespace keyscope::recording {
namespace {

bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat opened, named;
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

// link() refuses an existing name on every file system that can link at all.
int rename_by_link(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return ::unlink(from.c_str());
  if (errno == EEXIST || std::filesystem::exists(to)) {
    errno = EEXIST;
    return -1;
  }
  return std::rename(from.c_str(), to.c_str());
}

int rename_without_replacing(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  return errno == EINVAL || errno == ENOSYS ? rename_by_link(from, to) : -1;
}

}  // namespace

PartFile::PartFile(const std::filesystem::path& out, bool replace)
    : out_(output_path(out, replace)), part_(out_.string() + ".part"), replace_(replace) {
  if (!replace_) refuse_existing_part();
}

void PartFile::refuse_existing_part() const {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(part_, error)))
    throw FileError(part_.string() +
                    ": a recording in progress, or left by a capture that was killed; keep it under another "
                    "name, or use --force to replace it");
}

hdf5::File PartFile::create() const {
  if (!replace_) return hdf5::File::create(part_);
  // The process that holds the lock may remove the file and make the next one before it unlocks; a lock on a
  // file that no longer has this name came too late.
  const Descriptor stale(part_, O_RDWR);
  if (stale.id() >= 0) {
    if (try_lock(stale.id()) == FileLock::kBusy || !same_file(stale.id(), part_))
      throw FileError(part_.string() + ": another capture is writing to it; name another file");
    if (::unlink(part_.c_str()) != 0) fail_to("replace", part_.string(), errno);
  }
  return hdf5::File::create(part_);
}

void PartFile::publish() const {
  sync_path(part_);
  const int renamed =
      replace_ ? std::rename(part_.c_str(), out_.c_str()) : rename_without_replacing(part_, out_);
  if (renamed != 0) {
    const int error = errno;
    if (error == EEXIST)
      throw FileError(
          fmt::format("{}: has appeared while recording and is left as it is; the recording is in {}",
                      out_.string(), part_.string()));
    fail_to(fmt::format("rename {} to it", part_.string()), out_.string(), error);
  }
  sync_path(folder_of(out_));
}

void PartFile::remove() const noexcept {
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void reserve_space(int descriptor, std::uint64_t n_bytes, const std::string& where) {
  const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(n_bytes));
  if (error == 0) return;
  struct statvfs disk;
  if (error == ENOSPC && fstatvfs(descriptor, &disk) == 0)
    throw FileError(
        fmt::format("{}: the recording needs {:.1f} MB; the disk has {:.1f} MB left", where,
                    static_cast<double>(n_bytes) / 1e6,
                    static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) / 1e6));
  fail_to("reserve disk space", where, error);
}

}  // namespace keyscope::recording

#include "capture/recording/part_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/outputs_together.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::recording {
namespace {

// Whether a file has no byte but zeros: what a file system leaves where nothing was written.
bool is_blank(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 1 << 16> bytes{};
  while (file.read(bytes.data(), bytes.size()) || file.gcount() > 0)
    if (!std::all_of(bytes.begin(), bytes.begin() + file.gcount(), [](char byte) { return byte == 0; }))
      return false;
  return file.eof();
}

// Whether a capture that was killed has left nothing in a part that cannot be made again: nothing was
// written, or an HDF5 file without anything in it, or a recording of no block, or a replay. Of what cannot be
// read nobody knows.
bool is_worthless(const std::filesystem::path& part) {
  if (is_blank(part)) return true;
  try {
    const hdf5::File file = hdf5::File::open(part);
    const hdf5::Group root = file.root();
    if (root.names().empty() && root.attribute_names().empty()) return true;
    const auto info = open_recording(part.string())->info();
    return std::ranges::any_of(info->runs, [](const RunInfo& run) { return run.plan.replayed; }) ||
           std::ranges::all_of(info->runs, [](const RunInfo& run) { return run.blocks_done == 0; });
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace

PartFile::PartFile(const std::filesystem::path& out, bool replace)
    : out_(output_path(out, replace)),
      part_(out_.string() + ".part"),
      unsettled_(own_part(part_)),
      replace_(replace) {
  std::error_code error;
  if (replace_ || !std::filesystem::exists(std::filesystem::symlink_status(part_, error))) return;
  refuse_worthy_part();
}

void PartFile::refuse_worthy_part() const {
  const Descriptor left(part_, O_RDWR);
  if (left.id() >= 0 && try_lock(left.id()) == FileLock::kBusy)
    throw FileError(part_.string() + ": another capture is writing to it; name another file");
  if (left.id() < 0 || !is_worthless(part_))
    throw FileError(
        part_.string() +
        ": left by a capture that was killed, with what it had recorded, which every command reads, "
        "or another file; keep it under another name, or use --force to replace it");
}

// The process that holds the lock may remove the file and make the next one before it unlocks; a lock on a
// file that no longer has this name came too late.
void PartFile::lock_stale_part() {
  if (!replace_) refuse_worthy_part();  // it may be another by now
  stale_ = std::make_unique<Descriptor>(part_, O_RDWR);
  if (stale_->id() < 0) fail_to("replace", part_.string(), errno);
  if (try_lock(stale_->id()) == FileLock::kBusy || !same_file(stale_->id(), part_))
    throw FileError(part_.string() + ": another capture is writing to it; name another file");
}

hdf5::File PartFile::create() {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(part_, error))) lock_stale_part();
  hdf5::File file = hdf5::File::create(unsettled_, part_);
  try {
    lock_ = file.keep_lock();
  } catch (const FileError&) {
    file.abandon();
    remove();
    throw;
  }
  return file;
}

void PartFile::settle() {
  sync_path(unsettled_);
  if (stale_ != nullptr && same_file(stale_->id(), part_) && ::unlink(part_.c_str()) != 0)
    fail_to("replace", part_.string(), errno);
  NewFile file{unsettled_, part_};
  give_names({&file, 1});
  unsettled_.clear();
  stale_.reset();
}

void PartFile::publish() {
  sync_path(part_);
  try {
    output_path(out_, true);  // what has appeared there meanwhile may be no file at all
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}; it is in {}", error.what(), part_.string()));
  }
  NewFile file{part_, out_, replace_, true, std::move(lock_)};
  try {
    complete_file(file);
  } catch (...) {
    lock_ = std::move(file.lock);
    throw;
  }
}

void PartFile::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove(unsettled_.empty() ? part_ : unsettled_, ignored);
  lock_.reset();
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

#include "base/outputs_together.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"

namespace keyscope {

namespace {

namespace fs = std::filesystem;

thread_local OutputsTogether* together = nullptr;

// What a name has cost, and so how it is taken back.
enum class Given { kNew, kExchanged, kReplaced };

int rename_with(const fs::path& from, const fs::path& to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags);
}

bool cannot_be_asked() { return errno == EINVAL || errno == ENOSYS; }

// link() refuses an existing name on every file system that can link at all.
int rename_by_link(const fs::path& from, const fs::path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    if (::unlink(from.c_str()) == 0) return 0;
    const int refused = errno;
    ::unlink(to.c_str());  // a name that could not be moved was not given
    errno = refused;
    return -1;
  }
  std::error_code error;
  if (errno == EEXIST || fs::exists(fs::symlink_status(to, error))) {
    errno = EEXIST;
    return -1;
  }
  return std::rename(from.c_str(), to.c_str());
}

int rename_without_replacing(const fs::path& from, const fs::path& to) {
  if (rename_with(from, to, RENAME_NOREPLACE) == 0) return 0;
  return cannot_be_asked() ? rename_by_link(from, to) : -1;
}

[[noreturn]] void fail_to_name(const NewFile& file, int error) {
  const std::string kept = file.keeps_part ? fmt::format("; it is in {}", file.part.string()) : "";
  throw FileError(error == EEXIST ? fmt::format("{}: has appeared while it was made, and is left as it is{}",
                                                file.path.string(), kept)
                                  : fmt::format("{}: cannot get its name: {}{}", file.path.string(),
                                                std::generic_category().message(error), kept));
}

// Where a file is replaced, the part becomes the older one, so that it can be put back.
Given give_name(const NewFile& file) {
  if (rename_without_replacing(file.part, file.path) == 0) return Given::kNew;
  if (errno != EEXIST || !file.replace) fail_to_name(file, errno);
  if (rename_with(file.part, file.path, RENAME_EXCHANGE) == 0) return Given::kExchanged;
  if (!cannot_be_asked() || std::rename(file.part.c_str(), file.path.c_str()) != 0) fail_to_name(file, errno);
  return Given::kReplaced;
}

// A hold on what has a name by now; its lock where it can be had.
std::shared_ptr<Descriptor> hold(const fs::path& path) {
  auto held = std::make_shared<Descriptor>(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  try_lock(held->id());
  return held;
}

// A file that has its name is anybody's to lock, as readers do. What it was exchanged with goes by the name
// that was locked until it is removed, and no other writer is to put a file of its own there meanwhile: it is
// held before.
Given give_locked_name(NewFile& file) {
  std::shared_ptr<Descriptor> older;
  if (file.lock != nullptr && file.replace) older = hold(file.path);
  const Given given = give_name(file);
  file.lock = given == Given::kExchanged ? std::move(older) : nullptr;
  return given;
}

// Returns what is to be said where it fails: then the part, which is the older file's only copy, stays.
std::string take_back(NewFile& file, Given given) {
  if (given == Given::kReplaced) return "";
  if (given == Given::kNew)
    return rename_without_replacing(file.path, file.part) == 0
               ? ""
               : fmt::format("; {} has its name already, and stays", file.path.string());
  if (rename_with(file.part, file.path, RENAME_EXCHANGE) == 0) return "";
  file.keeps_part = true;
  return fmt::format("; {} is new already, and what it replaced is in {}", file.path.string(),
                     file.part.string());
}

// In the order in which the last name of each was given: no folder's names are on the disk before those of
// the files that they point to.
void sync_folders(std::span<const NewFile> files) {
  std::vector<fs::path> folders;
  for (const NewFile& file : files) {
    std::erase(folders, folder_of(file.path));
    folders.push_back(folder_of(file.path));
  }
  for (const fs::path& folder : folders) sync_path(folder);
}

// Two results under one name are one, and the other is lost: under --force, without a word.
void refuse_same_place(const NewFile& one, const NewFile& other) {
  for (const fs::path& first : {one.path, one.part})
    for (const fs::path& second : {other.path, other.part})
      if (first.filename() == second.filename() && place_of(first) == place_of(second))  // no links by now
        throw FileError(
            fmt::format("{}: is written twice by one command; expected a name of its own for each "
                        "of its files",
                        second.string()));
}

// Where it cannot be taken away, the next process that writes there does so. A part that was locked may be
// another's by now.
void remove_part(const NewFile& file) noexcept {
  if (file.lock != nullptr && file.lock->id() >= 0 && !same_file(file.lock->id(), file.part)) return;
  std::error_code ignored;
  fs::remove(file.part, ignored);
}

}  // namespace

void give_names(std::span<NewFile> files) {
  std::vector<Given> given;
  given.reserve(files.size());
  std::vector<bool> locked;
  for (const NewFile& file : files) locked.push_back(file.lock != nullptr);
  try {
    for (NewFile& file : files) given.push_back(give_locked_name(file));
    sync_folders(files);
  } catch (const std::exception& error) {
    std::string left;
    for (std::size_t i = given.size(); i-- > 0;) {
      left += take_back(files[i], given[i]);
      if (locked[i]) files[i].lock = hold(files[i].part);
    }
    throw FileError(error.what() + left);
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    if (given[i] == Given::kExchanged) remove_part(files[i]);
}

OutputsTogether::OutputsTogether() : outer_(std::exchange(together, this)) {}

OutputsTogether::~OutputsTogether() {
  together = outer_;
  for (const NewFile& file : files_)
    if (!file.keeps_part) remove_part(file);
}

void OutputsTogether::commit() {
  give_names(files_);
  files_.clear();
}

void OutputsTogether::leave_to_outer() {
  if (outer_ == nullptr) return commit();
  for (const NewFile& file : files_)
    for (const NewFile& other : outer_->files_) refuse_same_place(other, file);
  std::ranges::move(files_, std::back_inserter(outer_->files_));
  files_.clear();
}

fs::path OutputsTogether::part_of(const fs::path& path) const {
  for (const NewFile& file : files_)
    if (place_of(file.path) == place_of(path)) return file.part;
  return {};
}

void complete_file(NewFile& file) {
  if (together == nullptr) return give_names({&file, 1});
  for (const NewFile& other : together->files_) refuse_same_place(other, file);
  together->files_.push_back(file);
}

}  // namespace keyscope

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/files.hpp"
#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

// Where a recording is written: OUT.part beside OUT, until it is renamed; and before it can be read, under a
// name of this process's own. All calls throw FileError.
class PartFile {
 public:
  // Looks whether OUT or a `.part` of a killed capture is in the way; with `replace` neither is. Nor is one
  // that nobody writes to and that can be read and holds no block of a capture: it was killed in its first
  // moments, or was a replay, which can be made again.
  PartFile(const std::filesystem::path& out, bool replace);

  // A new file, locked against other writers, also when it is closed, until it has the name OUT, is removed
  // or this is gone; under a name of this process's own. A stale OUT.part, which may be replaced and which
  // nobody writes to, is locked until it makes room for it.
  hdf5::File create();
  // Calls it OUT.part, durably: its content is such that a process which is killed from now on leaves
  // something that can be read. What else has that name by then is left as it is.
  void settle();

  // Gives the closed OUT.part the name OUT, durably, and without replacing a file that has appeared meanwhile
  // unless that is allowed.
  void publish();

  void remove() noexcept;

  // Another file has taken the place of OUT.part: with its lock it goes on.
  void hold(std::unique_ptr<Descriptor> lock) { lock_ = std::move(lock); }
  // OUT.part stays as it is.
  void unlock() noexcept { lock_.reset(); }

  const std::filesystem::path& out() const { return out_; }
  const std::filesystem::path& part() const { return part_; }
  bool replace() const { return replace_; }

 private:
  void refuse_worthy_part() const;
  void lock_stale_part();

  std::filesystem::path out_;
  std::filesystem::path part_;
  std::filesystem::path unsettled_;    // what it is called until then; empty afterwards
  std::shared_ptr<Descriptor> lock_;   // of OUT.part, which is closed before it is published
  std::unique_ptr<Descriptor> stale_;  // the part that makes room
  bool replace_ = false;
};

// Assigns disk blocks to the whole file, which reads as zeros wherever nothing was written: a disk that is
// too small says so now. `where` names the file in messages.
void reserve_space(int descriptor, std::uint64_t n_bytes, const std::string& where);

}  // namespace keyscope::recording

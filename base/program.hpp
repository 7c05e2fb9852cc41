#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/types.h>

namespace keyscope {

// Of the program that runs; empty where the system does not say.
std::filesystem::path program_path();

// When a process began, in the kernel's ticks; 0: it is not there, or has ended.
std::uint64_t beginning_of_process(std::int64_t process);

// Of the machine since it was started, and of the numbers that its processes have in this container: where
// this is the same, so is a process of one number and beginning.
std::string machine_identity();

// How other programs are started: with no signal blocked, whichever of them this one takes over, so that they
// can be ended.
class SpawnAttributes {
 public:
  //   flags: of posix_spawnattr_setflags, beside those that this needs
  explicit SpawnAttributes(int flags = 0);
  ~SpawnAttributes();
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// A program that was started in a process of its own.
class ChildProgram {
 public:
  enum class Output { kDropped, kRead };  // its stdout; its stderr is this process's

  //   words: the program, sought on the PATH unless it has a slash, and its arguments
  //   throws FileError where it cannot be started
  ChildProgram(const std::vector<std::string>& words, Output output);
  ~ChildProgram();  // asked to end, and waited for
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  void end();  // asks it to (SIGTERM), unless it has been waited for
  bool has_ended();
  bool was_killed() const;  // by a signal, once it has ended

  // All that it writes, to the end.
  std::string read();
  // Waits for its end. Returns its exit status; 128 and the signal where one ended it.
  int wait();

 private:
  pid_t process_ = 0;
  int out_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace keyscope

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/files.hpp"

namespace keyscope::sweep {

// Who works: tells workers of all machines apart, and on one machine those that are there from those that
// were.
struct WorkerIdentity {
  std::string host;          // its name
  std::string machine;       // what of it was started when: the kernel's boot id, and the process namespace
  std::int64_t process = 0;  // pid
  std::uint64_t began = 0;   // when the process began, in the kernel's ticks since it was booted
  std::string token;         // drawn: no two workers have the same

  static WorkerIdentity of_this_process();
  std::string name() const;  // "node7:4711"
};

// Claims on pieces of work, each a file of that name in a folder that workers share. A claim is made by
// giving a file of one's own a second name, which is atomic on file systems of clusters as well and needs no
// locks. It is held for as long as its file changes: whoever sees no change for the length of its lease by a
// clock of their own may take it over, so that clocks may differ. A worker of the same machine whose process
// has ended is seen to be gone at once.
//   Two workers may hold one claim where one was stopped for longer than its lease: both then do the work,
//   which must do no harm. Safe on one thread; renewal happens on a thread of its own.
class Claims {
 public:
  //   folder: there, writable
  //   throws FileError where it is not
  Claims(std::filesystem::path folder, WorkerIdentity worker, std::chrono::milliseconds lease);
  ~Claims();  // what is held is given up
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // Claims a piece of work, or takes it over; false: another worker holds it, as far as can be told. One at a
  // time is held.
  //   throws FileError where the folder cannot be written to
  bool claim(const std::string& name);
  // Whether what is held was another's, who may have left something of it half done.
  bool was_taken_over() const { return taken_over_; }
  // Whether what was claimed is still this worker's: one that was stopped for longer than its lease may find
  // that another has taken it over.
  bool is_held() const;
  void give_up();

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::string content;
    Clock::time_point since;
  };

  std::unique_ptr<Descriptor> make(const std::string& name) const;
  bool hold(const std::string& name);
  bool is_over(const std::string& name, const std::string& content);
  bool take_over(const std::string& name, const std::string& content);
  void renew(const std::stop_token& stop) const;

  std::filesystem::path folder_;
  WorkerIdentity worker_;
  std::chrono::milliseconds lease_;
  std::string held_;  // empty: none is
  bool taken_over_ = false;
  std::unique_ptr<Descriptor> file_;  // of the claim that is held
  std::map<std::string, Seen> seen_;  // claims of others, when they were seen to change last
  std::jthread renewal_;
};

}  // namespace keyscope::sweep

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace keyscope::recording {

// A recursive mutex that threads get in the order in which they came. With std::recursive_mutex a thread that
// locks again at once mostly gets it again, and another one waits for the whole of what it does.
class FairMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex gate_;
  std::condition_variable next_turn_;
  std::uint64_t n_came_ = 0;
  std::uint64_t n_left_ = 0;
  std::atomic<std::thread::id> owner_;
  int depth_ = 0;  // the owner's
};

}  // namespace keyscope::recording

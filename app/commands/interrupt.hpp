#pragma once

#include <functional>

namespace keyscope::commands {

// Takes over Ctrl-C and SIGTERM for the process. Call once, in `main`, before any other thread starts.
void watch_interrupts();

// While it lives, the first interrupt calls `cancel` (on a thread of its own) instead of ending the process;
// a second one ends it at once with status 130.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> cancel);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;
};

}  // namespace keyscope::commands

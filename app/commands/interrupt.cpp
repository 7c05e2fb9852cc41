#include "app/commands/interrupt.hpp"

#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include <unistd.h>

namespace keyscope::commands {
namespace {

constexpr int kInterrupted = 130;

struct InterruptState {
  std::mutex mutex;
  std::function<void()> cancel;
  bool cancelling = false;
};

InterruptState& state() {
  static InterruptState instance;
  return instance;
}

void on_signal() {
  std::lock_guard lock(state().mutex);
  if (!state().cancel || state().cancelling) _exit(kInterrupted);
  state().cancelling = true;
  state().cancel();
}

}  // namespace

// A thread that waits for the signals may call anything; a handler could call next to nothing.
void watch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  state();  // constructed before the thread that uses it
  std::thread([signals] {
    for (;;) {
      int signal = 0;
      if (sigwait(&signals, &signal) == 0) on_signal();
    }
  }).detach();
}

OnInterrupt::OnInterrupt(std::function<void()> cancel) {
  std::lock_guard lock(state().mutex);
  state().cancel = std::move(cancel);
  state().cancelling = false;
}

OnInterrupt::~OnInterrupt() {
  std::lock_guard lock(state().mutex);
  state().cancel = nullptr;
}

}  // namespace keyscope::commands

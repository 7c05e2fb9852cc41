#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace keyscope::capture {

// How far a capture is; sent after every block.
struct CaptureProgress {
  std::string run;
  int run_index = 0;
  int n_runs = 0;
  std::int64_t block = 0;        // done in this run
  std::int64_t n_blocks = 0;     // planned in this run
  std::int64_t tokens_done = 0;  // over all runs
  std::int64_t tokens_total = 0;
  double elapsed_seconds = 0;
};

// The other end of a running capture: pause, resume, single steps, cancel. Safe from any thread; `cancel` may
// be called from a signal handler's thread, not from the handler itself.
class CaptureControl {
 public:
  void pause();
  void resume();
  void step();  // while paused: let one block pass
  void cancel();
  bool paused() const;
  bool cancelled() const;

  // Called by the inference thread before every block: waits while paused.
  //   throws Cancelled after `cancel`
  void wait_for_turn();

  std::function<void(const CaptureProgress&)> on_progress;  // called on the inference thread; may be empty

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false;
  bool cancelled_ = false;
  int steps_ = 0;
};

}  // namespace keyscope::capture

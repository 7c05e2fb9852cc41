#include "capture/inference/capture_control.hpp"

#include "base/errors.hpp"

namespace keyscope::capture {

void CaptureControl::pause() {
  std::lock_guard lock(mutex_);
  paused_ = true;
  steps_ = 0;
}

void CaptureControl::resume() {
  {
    std::lock_guard lock(mutex_);
    paused_ = false;
  }
  changed_.notify_all();
}

void CaptureControl::step() {
  {
    std::lock_guard lock(mutex_);
    ++steps_;
  }
  changed_.notify_all();
}

void CaptureControl::cancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

bool CaptureControl::paused() const {
  std::lock_guard lock(mutex_);
  return paused_;
}

bool CaptureControl::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

void CaptureControl::wait_for_turn() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return cancelled_ || !paused_ || steps_ > 0; });
  if (cancelled_) throw Cancelled("the capture was cancelled");
  if (paused_) --steps_;
}

}  // namespace keyscope::capture

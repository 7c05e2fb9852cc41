#include <chrono>
#include <mutex>
#include <optional>

#include "base/errors.hpp"
#include "capture/inference/capture.hpp"

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

void CaptureControl::pause_after(std::optional<std::int64_t> position) {
  std::lock_guard lock(mutex_);
  pause_after_ = position;
}

void CaptureControl::set_rate(double per_second) {
  {
    std::lock_guard lock(mutex_);
    interval_ = std::chrono::duration<double>(per_second > 0 ? 1 / per_second : 0);
  }
  changed_.notify_all();
}

void CaptureControl::check_cancelled() const {
  if (cancelled()) throw Cancelled("the capture was cancelled");
}

bool CaptureControl::holds_up() const {
  std::lock_guard lock(mutex_);
  return paused_ || interval_.count() > 0;
}

void CaptureControl::wait_for_turn(std::optional<std::int64_t> first) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  if (pause_after_ && first && *first > *pause_after_) {
    pause_after_.reset();
    if (!paused_) steps_ = 0;
    paused_ = true;
    lock.unlock();
    if (on_pause) on_pause();
    lock.lock();
  }
  while (!cancelled_) {
    if (paused_ && steps_ > 0) break;
    const auto due = turn_ + std::chrono::duration_cast<Clock::duration>(interval_);
    if (paused_)
      changed_.wait(lock);
    else if (Clock::now() < due)
      changed_.wait_until(lock, due);
    else
      break;
  }
  if (cancelled_) throw Cancelled("the capture was cancelled");
  if (paused_) --steps_;
  turn_ = Clock::now();
}

}  // namespace keyscope::capture

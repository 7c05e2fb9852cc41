#include "app/session/live.hpp"

#include <array>
#include <exception>
#include <new>

#include "base/errors.hpp"

namespace keyscope::session {

LiveRunner::LiveRunner(LiveCapture capture, std::function<void()> wake)
    : recording_(recording::MemoryRecording::create()), wake_(std::move(wake)) {
  control_.on_progress = [this](const capture::CaptureProgress& progress) { note_progress(progress); };
  thread_ = std::thread([this, work = std::move(capture)] { run(work); });
}

LiveRunner::~LiveRunner() {
  control_.cancel();
  thread_.join();
}

// The one place where what a capture throws ends: a worker never takes the window down with it.
void LiveRunner::run(const LiveCapture& capture) {
  std::array<recording::RecordSink*, 1> sinks{recording_.get()};
  try {
    capture(sinks, control_);
    finish(LiveStage::kDone, "");
  } catch (const Cancelled&) {
    finish(LiveStage::kCancelled, "");
  } catch (const std::bad_alloc&) {
    finish(LiveStage::kFailed, "memory ran out; try fewer tokens, fewer layers or a smaller block");
  } catch (const std::exception& error) {
    finish(LiveStage::kFailed, error.what());
  }
}

void LiveRunner::note_progress(const capture::CaptureProgress& progress) {
  const auto now = std::chrono::steady_clock::now();
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    status_.progress = progress;
    status_.pace.note(progress, now, held_ || control_.paused());
    held_ = control_.paused();
    if (status_.began == std::chrono::steady_clock::time_point()) status_.began = now;
    if (status_.stage == LiveStage::kStarting)
      status_.stage = control_.paused() ? LiveStage::kPaused : LiveStage::kRunning;
    wake = now - last_wake_ >= kWakeInterval || status_.stage == LiveStage::kPaused;
    if (wake) last_wake_ = now;
  }
  if (wake && wake_) wake_();
}

void LiveRunner::finish(LiveStage stage, std::string message) {
  {
    std::lock_guard lock(mutex_);
    status_.stage = stage;
    status_.message = std::move(message);
    status_.ended = std::chrono::steady_clock::now();
  }
  if (wake_) wake_();
}

void LiveRunner::pause() {
  std::lock_guard lock(mutex_);
  if (status_.stage != LiveStage::kRunning && status_.stage != LiveStage::kStarting) return;
  control_.pause();
  held_ = true;
  status_.stage = LiveStage::kPaused;
}

void LiveRunner::resume() {
  std::lock_guard lock(mutex_);
  if (status_.stage != LiveStage::kPaused) return;
  status_.stage = LiveStage::kRunning;
  control_.resume();
}

void LiveRunner::step() {
  pause();
  std::lock_guard lock(mutex_);
  if (status_.stage == LiveStage::kPaused) control_.step();
}

void LiveRunner::cancel() {
  std::lock_guard lock(mutex_);
  if (!status_.going_on()) return;
  status_.stage = LiveStage::kStopping;
  control_.cancel();
}

LiveStatus LiveRunner::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace keyscope::session

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "app/session/live_capture.hpp"
#include "app/session/live_pace.hpp"
#include "capture/inference/capture_control.hpp"
#include "capture/recording/memory_recording.hpp"

namespace keyscope::session {

enum class LiveStage { kStarting, kRunning, kPaused, kStopping, kDone, kCancelled, kFailed };

struct LiveStatus {
  LiveStage stage = LiveStage::kStarting;
  capture::CaptureProgress progress;
  LivePace pace;
  std::string message;  // why it failed
  // Of its first progress, when the model was loaded, and of its end.
  std::chrono::steady_clock::time_point began, ended;

  bool going_on() const { return stage < LiveStage::kDone; }
};

// One live capture on a thread of its own, into a recording in memory that can be read meanwhile.
class LiveRunner {
 public:
  // `wake` is called on the runner's thread: after blocks, at most every kWakeInterval, and at the end.
  LiveRunner(LiveCapture capture, std::function<void()> wake);

  // Cancels and waits: at most for the block in flight. What was recorded by then is kept.
  ~LiveRunner();
  LiveRunner(const LiveRunner&) = delete;
  LiveRunner& operator=(const LiveRunner&) = delete;

  void pause();
  void resume();
  void step();  // lets one block pass, then pauses
  void cancel();

  LiveStatus status() const;
  std::shared_ptr<const recording::Recording> recording() const { return recording_; }

  static constexpr std::chrono::milliseconds kWakeInterval{250};

 private:
  void run(const LiveCapture& capture);
  void note_progress(const capture::CaptureProgress& progress);
  void finish(LiveStage stage, std::string message);

  std::shared_ptr<recording::MemoryRecording> recording_;
  capture::CaptureControl control_;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  LiveStatus status_;
  bool held_ = false;  // paused since the last report
  std::chrono::steady_clock::time_point last_wake_{};
  std::thread thread_;
};

}  // namespace keyscope::session

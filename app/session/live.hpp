#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "capture/inference/capture.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// A capture that hands its blocks to `sinks` and obeys `control`, on the thread that calls it.
using LiveCapture =
    std::function<void(std::span<recording::RecordSink* const> sinks, capture::CaptureControl& control)>;

// How fast a capture is now: of the prompt, which goes by in blocks, and of what it generates, token by
// token, which is much slower. The time between two reports counts, except where the capture was held.
class LivePace {
 public:
  using Clock = std::chrono::steady_clock;

  //   held: the capture was paused at some moment since the last report
  void note(const capture::CaptureProgress& progress, Clock::time_point now, bool held);

  // Tokens a second, of the last seconds more than of those before; 0: not known yet.
  double prompt_rate() const { return prompt_; }
  double generation_rate() const { return generation_; }
  double last_rate() const { return last_generated_ ? generation_ : prompt_; }

 private:
  std::optional<Clock::time_point> last_;
  std::int64_t last_tokens_ = 0;
  bool last_generated_ = false;
  double prompt_ = 0, generation_ = 0;
};

// What the runs still have to do. Runs may end earlier: with a token that ends the text.
struct LiveWork {
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
};
LiveWork work_left(const recording::RecordingInfo& info);

// Seconds until `work` is done at this pace; empty where the pace of a part of it is not known.
std::optional<double> seconds_left(const LiveWork& work, const LivePace& pace);

enum class LiveStage { kStarting, kRunning, kPaused, kStopping, kDone, kCancelled, kFailed };

struct LiveStatus {
  LiveStage stage = LiveStage::kStarting;
  capture::CaptureProgress progress;
  LivePace pace;
  std::string message;                     // why it failed
  std::optional<std::int64_t> stop_after;  // the token after which it pauses
  double rate = 0;                         // blocks a second, at most; 0: as fast as it goes
  // Of its first progress, when the model was loaded, and of its end.
  std::chrono::steady_clock::time_point began, ended;

  bool going_on() const { return stage < LiveStage::kDone; }
};

// One live capture on a thread of its own, into a recording in memory that can be read meanwhile.
class LiveRunner {
 public:
  // `wake` is called on the runner's thread: after blocks, at most every kWakeInterval, and at the end.
  LiveRunner(LiveCapture capture, std::function<void()> wake, bool paused = false);

  // Cancels and waits: at most for the block in flight. What was recorded by then is kept.
  ~LiveRunner();
  LiveRunner(const LiveRunner&) = delete;
  LiveRunner& operator=(const LiveRunner&) = delete;

  void pause();
  void resume();
  void step();  // lets one block pass, of all runs that go together, then pauses
  void cancel();
  void stop_after(std::optional<std::int64_t> position);  // pauses once this token was read
  void set_rate(double blocks_per_second);                // 0: as fast as it goes

  LiveStatus status() const;
  std::shared_ptr<const recording::Recording> recording() const { return recording_; }

  static constexpr std::chrono::milliseconds kWakeInterval{250};

 private:
  void run(const LiveCapture& capture);
  void note_progress(const capture::CaptureProgress& progress);
  void note_pause();  // by itself
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

// Where a live run stands: "keydiff, block 5 of 16, 812 tokens/s, 12 s left", and while it generates
// "keydiff, token 3 of 64: …ing door·".
//   info: of what it recorded so far
std::string describe_live(const LiveStatus& status, const recording::RecordingInfo& info);

// The share of the work that is done, from 0 to 1.
double share_done(const LiveStatus& status);

}  // namespace keyscope::session

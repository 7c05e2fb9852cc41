#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "capture/inference/capture_control.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

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

}  // namespace keyscope::session

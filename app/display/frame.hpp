#pragma once

#include <chrono>
namespace keyscope::window {

// When frames may be drawn while a model runs, because drawing takes the processor from it: at once where
// somebody uses the window; else four times a second at most, and where frames are slow, for want of a
// graphics card, so seldom that they take a small share of the time.
class FrameRate {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr double kLeastWaitSeconds = 0.25, kMostWaitSeconds = 2;
  static constexpr double kMostShare = 0.02;      // of the time, for frames that nobody asked for
  static constexpr double kAttentionSeconds = 1;  // after an input

  void note_input(Clock::time_point now) { last_input_ = now; }
  void note_frame(Clock::time_point began, Clock::time_point ended);

  // Seconds until the next frame may be drawn.
  double wait(Clock::time_point now) const;

 private:
  Clock::time_point last_input_{}, last_frame_{};
  double wait_after_frame_ = kLeastWaitSeconds;
};

}  // namespace keyscope::window

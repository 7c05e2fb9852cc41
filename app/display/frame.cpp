#include "app/display/frame.hpp"

#include <algorithm>
namespace keyscope::window {

namespace {

double seconds(FrameRate::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void FrameRate::note_frame(Clock::time_point began, Clock::time_point ended) {
  last_frame_ = ended;
  wait_after_frame_ = std::clamp(seconds(ended - began) / kMostShare, kLeastWaitSeconds, kMostWaitSeconds);
}

double FrameRate::wait(Clock::time_point now) const {
  if (seconds(now - last_input_) < kAttentionSeconds) return 0;
  return std::max(0.0, wait_after_frame_ - seconds(now - last_frame_));
}

}  // namespace keyscope::window

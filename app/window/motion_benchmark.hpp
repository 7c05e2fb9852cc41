#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::window {

enum class Motion {
  kPan,   // along a circle, by whole pixels, as a mouse does
  kZoom,  // in and out around the middle
};

// What moving the view cost: the whole window was drawn and shown in every frame.
struct MotionTimes {
  std::vector<double> frame_ms;   // ascending
  double seconds = 0;             // all frames together
  std::int64_t points_drawn = 0;  // anew in the last frame
  double median_ms() const { return frame_ms[frame_ms.size() / 2]; }
  double p99_ms() const { return frame_ms[frame_ms.size() * 99 / 100]; }
  double frames_per_second() const { return static_cast<double>(frame_ms.size()) / seconds; }
};

// Opens the window on a recording, waits until all results are in, and moves its key space for n_frames.
//   n_frames >= 1
//   throws Error without a display
MotionTimes measure_motion(std::shared_ptr<const recording::Recording> recording, Motion motion, int n_frames,
                           int width, int height);

}  // namespace keyscope::window

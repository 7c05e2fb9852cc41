#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "app/session/live_capture.hpp"

namespace keyscope::window {

// How much the window slows the run that it shows while nobody touches it: the same live run with nobody
// looking, and in a window that follows it, in turns.
struct LiveBenchmark {
  session::LiveRequest request;  // of what is recorded in memory
  int width = 1280, height = 800;
  int repeat = 3;
  const std::atomic<bool>* cancelled = nullptr;
  std::function<void(int done, int total)> on_run;
};

// Seconds from a run's first progress, when its model was loaded, to its end.
struct LiveTimes {
  std::vector<double> alone, in_window;  // (repeat)
};

//   throws Error without a display, as the window does, and with what the run failed of; Cancelled soon after
//   `cancelled`
LiveTimes measure_live(const LiveBenchmark& benchmark);

}  // namespace keyscope::window

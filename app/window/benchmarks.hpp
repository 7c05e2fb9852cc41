#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "app/session/live_request.hpp"
#include "app/session/session.hpp"

namespace keyscope::window {

// What somebody does to the window, again and again.
enum class Gesture {
  kPan,     // the shown plot along a circle, by whole pixels, as a mouse does
  kZoom,    // it in and out around its middle
  kHover,   // the pointer over it
  kPlay,    // from block to block
  kHeads,   // from head to head: over when the head's keys are drawn
  kSettle,  // likewise, but in the basis of all keys and queries
  kBudget,  // the budget is dragged by a hundredth: over when what it would keep is drawn
};

struct NamedGesture {
  Gesture gesture;
  std::string_view name, about;
};
std::span<const NamedGesture> named_gestures();

// What a gesture cost: the whole window was drawn after each.
struct GestureTimes {
  Gesture gesture = Gesture::kPan;
  std::vector<double> ms;         // ascending; never empty
  double seconds = 0;             // all together
  std::int64_t points_drawn = 0;  // of the key space, anew in the last frame
  double median_ms() const { return ms[ms.size() / 2]; }
  double p99_ms() const { return ms[ms.size() * 99 / 100]; }
  double per_second() const { return static_cast<double>(ms.size()) / seconds; }
};

struct ViewBenchmark {
  std::function<void(session::Session&)> open;  // opens or shows a recording
  std::string_view view = session::kKeyspaceView;
  std::vector<Gesture> gestures;
  int n_frames = 300;  // >= 1, of each
  int width = 1280, height = 800;
  const std::atomic<bool>* cancelled = nullptr;          // may be null
  std::function<void(std::int64_t done)> on_frame = {};  // of all gestures' frames
};

struct ViewTimes {
  double opened_ms = 0;  // from `open` until the keys of the first head, or the figure, are drawn
  std::vector<GestureTimes> gestures;
};

// Draws the window off screen, waits until it shows what it was opened on, and times gesture after gesture.
//   throws Error without a display, FileError as opening does, UsageError where the view shows nothing,
//   Cancelled
ViewTimes measure_view(const ViewBenchmark& benchmark);

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

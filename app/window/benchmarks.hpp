#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

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

}  // namespace keyscope::window

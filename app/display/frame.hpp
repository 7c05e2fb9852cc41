#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "app/display/plot_view.hpp"

namespace keyscope::window {

// By how much a picture moves, in pixels, y downwards.
struct PixelShift {
  int x = 0, y = 0;
  bool operator==(const PixelShift&) const = default;
};

// A part of a picture in pixels from its top left corner: x_low <= x < x_high, y_low <= y < y_high.
struct PixelRect {
  int x_low = 0, y_low = 0, x_high = 0, y_high = 0;
  bool operator==(const PixelRect&) const = default;
};

// Where a plot's grid lines lie, in pixels from its top left corner.
struct PlotGrid {
  std::vector<int> x_px, y_px;
  bool operator==(const PlotGrid&) const = default;
};

// The shift that turns the picture of `from` into that of `to`; nullopt where no shift by whole pixels does,
// because the scale or the size differs.
std::optional<PixelShift> whole_pixel_shift(const PlotView& from, const PlotView& to);

// What of the picture a shift leaves to be drawn: at most two parts, which do not overlap.
std::vector<PixelRect> exposed_parts(int width, int height, PixelShift shift);

// Whether `shift` brings the lines of `from` onto those of `to` in the part of the picture that it keeps.
bool lines_follow(const PlotGrid& from, const PlotGrid& to, int width, int height, PixelShift shift);

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

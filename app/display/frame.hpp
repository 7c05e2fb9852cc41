#pragma once

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

}  // namespace keyscope::window

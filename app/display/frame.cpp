#include "app/display/frame.hpp"

#include <algorithm>
#include <cmath>
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

namespace {

constexpr double kSamePixel = 0.01;  // further off, anti-aliased edges would begin to differ

// The lines of one axis that a shift keeps in sight, where they are afterwards.
std::vector<int> kept(const std::vector<int>& lines, int moved_by, int shift, int size) {
  const int low = std::max(0, shift);
  const int high = std::min(size, size + shift);
  std::vector<int> result;
  for (const int line : lines)
    if (line + moved_by >= low && line + moved_by < high) result.push_back(line + moved_by);
  return result;
}

}  // namespace

std::optional<PixelShift> whole_pixel_shift(const PlotView& from, const PlotView& to) {
  if (from.pixels_per_unit_x() != to.pixels_per_unit_x() ||
      from.pixels_per_unit_y() != to.pixels_per_unit_y() || from.width() != to.width() ||
      from.height() != to.height())
    return std::nullopt;
  const double x = (from.centre().x - to.centre().x) * to.pixels_per_unit_x();
  const double y = (to.centre().y - from.centre().y) * to.pixels_per_unit_y();
  constexpr double kFarthest = 0x1p30;  // pixels; an int holds them
  if (!(std::max(std::abs(x), std::abs(y)) < kFarthest)) return std::nullopt;
  const PixelShift shift{static_cast<int>(std::lround(x)), static_cast<int>(std::lround(y))};
  if (std::abs(x - shift.x) > kSamePixel || std::abs(y - shift.y) > kSamePixel) return std::nullopt;
  return shift;
}

std::vector<PixelRect> exposed_parts(int width, int height, PixelShift shift) {
  if (std::abs(shift.x) >= width || std::abs(shift.y) >= height) return {{0, 0, width, height}};
  std::vector<PixelRect> parts;
  int low = 0, high = width;  // the columns that are not exposed
  if (shift.x > 0) parts.push_back({0, 0, low = shift.x, height});
  if (shift.x < 0) parts.push_back({high = width + shift.x, 0, width, height});
  if (shift.y > 0) parts.push_back({low, 0, high, shift.y});
  if (shift.y < 0) parts.push_back({low, height + shift.y, high, height});
  return parts;
}

bool lines_follow(const PlotGrid& from, const PlotGrid& to, int width, int height, PixelShift shift) {
  return kept(from.x_px, shift.x, shift.x, width) == kept(to.x_px, 0, shift.x, width) &&
         kept(from.y_px, shift.y, shift.y, height) == kept(to.y_px, 0, shift.y, height);
}

}  // namespace keyscope::window

#include "app/panels/tooltip_place.hpp"

#include <algorithm>

namespace keyscope::window {
namespace {

// One side of it: where it begins for a mouse at `at` in [low, high].
float towards_middle(float at, float size, float low, float high, float gap) {
  return at > 0.5F * (low + high) ? at - gap - size : at + gap;
}

float inside(float begin, float size, float low, float high) {
  return size <= high - low ? std::clamp(begin, low, high - size) : begin;
}

}  // namespace

Pixel place_tooltip(Pixel mouse, Pixel size, const Rect& plot, float gap) {
  const Pixel wanted{towards_middle(mouse.x, size.x, plot.x, plot.right(), gap),
                     towards_middle(mouse.y, size.y, plot.y, plot.bottom(), gap)};
  const Pixel moved{inside(wanted.x, size.x, plot.x, plot.right()),
                    inside(wanted.y, size.y, plot.y, plot.bottom())};
  const bool covers =
      mouse.x >= moved.x && mouse.x < moved.x + size.x && mouse.y >= moved.y && mouse.y < moved.y + size.y;
  if (!covers) return moved;
  return {moved.x, wanted.y};  // above or below: columns beside the plot are what must stay in sight
}

}  // namespace keyscope::window

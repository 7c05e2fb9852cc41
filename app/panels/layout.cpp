#include "app/panels/layout.hpp"

#include <algorithm>

namespace keyscope::window {
namespace {

constexpr float kTopHeight = 46;
constexpr float kStatusHeight = 27;
constexpr float kTimelineHeight = 68;
constexpr float kTallTimelineHeight = 112;  // with a bar per block
constexpr float kHeightForTall = 440;       // of all between the bars
constexpr float kViewsHeight = 30;
constexpr float kGap = 8;
constexpr float kLeastColumn = 212;
constexpr float kMostColumn = 340;
constexpr float kColumnShare = 0.232F;
constexpr float kLeastMiddleWidth = 300;
constexpr float kLeastMiddleHeight = 190;

}  // namespace

Layout make_layout(float width, float height, float scale, float runs_height) {
  const float gap = kGap * scale;
  const float column = std::clamp(kColumnShare * width, kLeastColumn * scale, kMostColumn * scale);
  Layout layout;
  layout.top = {0, 0, width, kTopHeight * scale};
  layout.status = {0, height - kStatusHeight * scale, width, kStatusHeight * scale};

  const float above = layout.top.bottom() + gap;
  const float inner = std::max(1.0F, layout.status.y - gap - above);
  const float beside = width - 2 * gap - kLeastMiddleWidth * scale;  // what columns may take
  const bool has_left = beside >= column + gap;
  const bool has_token = beside >= 2 * (column + gap);
  const bool has_timeline = inner >= (kLeastMiddleHeight + kTimelineHeight) * scale + gap;

  float left = gap;
  float right = width - gap;
  if (has_left) {
    const float runs = std::min(runs_height, inner / 2);
    layout.heads = {gap, above, column, inner - runs - gap};
    layout.runs = {gap, layout.heads.bottom() + gap, column, runs};
    left += column + gap;
  }
  if (has_token) {
    layout.token = {right - column, above, column, inner};
    right -= column + gap;
  }
  layout.middle = {left, above, std::max(1.0F, right - left), inner};
  if (has_timeline) {
    const float timeline = (inner >= kHeightForTall * scale ? kTallTimelineHeight : kTimelineHeight) * scale;
    layout.middle.h -= timeline + gap;
    layout.timeline = {left, layout.middle.bottom() + gap, layout.middle.w, timeline};
  }
  if (layout.middle.h >= (kLeastMiddleHeight + kViewsHeight) * scale) {
    layout.views = {left, above, layout.middle.w, kViewsHeight * scale};
    const float below = layout.views.h + 0.5F * gap;
    layout.middle.y += below;
    layout.middle.h -= below;
  }
  return layout;
}

}  // namespace keyscope::window

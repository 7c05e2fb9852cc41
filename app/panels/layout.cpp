#include "app/panels/layout.hpp"

#include <algorithm>

namespace keyscope::window {
namespace {

constexpr float kTopHeight = 46;
constexpr float kStatusHeight = 27;
constexpr float kTimelineHeight = 68;
constexpr float kGap = 8;
constexpr float kLeastColumn = 212;
constexpr float kMostColumn = 340;
constexpr float kColumnShare = 0.232F;

}  // namespace

Layout make_layout(float width, float height, float scale, float runs_height) {
  const float gap = kGap * scale;
  const float column = std::clamp(kColumnShare * width, kLeastColumn * scale, kMostColumn * scale);
  Layout layout;
  layout.top = {0, 0, width, kTopHeight * scale};
  layout.status = {0, height - kStatusHeight * scale, width, kStatusHeight * scale};

  const float above = layout.top.bottom() + gap;
  const float below = std::max(above + 1, layout.status.y - gap);
  const float inner = std::max(1.0F, below - above);
  const float timeline = std::min(kTimelineHeight * scale, inner / 2);
  const float middle = std::max(1.0F, width - 2 * column - 4 * gap);

  const float runs = std::min(runs_height, inner / 2);
  layout.heads = {gap, above, column, inner - runs - gap};
  layout.runs = {gap, layout.heads.bottom() + gap, column, runs};
  layout.keyspace = {2 * gap + column, above, middle, inner - timeline - gap};
  layout.timeline = {layout.keyspace.x, layout.keyspace.bottom() + gap, middle, timeline};
  layout.token = {layout.keyspace.right() + gap, above, column, inner};
  return layout;
}

}  // namespace keyscope::window

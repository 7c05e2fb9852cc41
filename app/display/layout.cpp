#include "app/display/layout.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr float kTimelineHeight = 90;
constexpr float kTallTimelineHeight = 134;  // with a bar per block
constexpr float kHeightForTall = 440;       // of all between the bars
constexpr float kPanelGap = 4;
constexpr float kLeastColumn = 212;
constexpr float kMostColumn = 340;
constexpr float kColumnShare = 0.232F;
constexpr float kLeastMiddleWidth = 300;
constexpr float kLeastMiddleHeight = 214;

}  // namespace

Layout make_layout(float width, float height, float scale, float runs_height) {
  const float gap = kPanelGap * scale;
  const float column = std::clamp(kColumnShare * width, kLeastColumn * scale, kMostColumn * scale);
  Layout layout;
  const float above = 0, inner = std::max(1.0F, height);
  const float beside = width - kLeastMiddleWidth * scale;  // what columns may take
  const bool has_left = beside >= column + gap;
  const bool has_token = beside >= 2 * (column + gap);
  const bool has_timeline = inner >= (kLeastMiddleHeight + kTimelineHeight) * scale + gap;

  float left = 0;
  float right = width;
  if (has_left) {
    const float runs = std::min(runs_height, inner / 2);
    layout.heads = {0, above, column, inner - runs - gap};
    layout.runs = {0, layout.heads.bottom() + gap, column, runs};
    left += column + gap;
  }
  if (has_token) {
    layout.token = {right - column, above, column, inner};
    right -= column + gap;
  }
  layout.middle = {left, above, std::max(1.0F, right - left), inner};
  if (has_timeline) {
    const float timeline = (inner >= kHeightForTall * scale ? kTallTimelineHeight : kTimelineHeight) * scale;
    layout.middle.height -= timeline + gap;
    layout.timeline = {left, layout.middle.bottom() + gap, layout.middle.width, timeline};
  }
  return layout;
}

std::string cut_text(const std::string& text, float width, const TextMeasure& measure) {
  if (measure(text) <= width) return text;
  const auto cut_at = [&](std::size_t length) { return text.substr(0, length) + "…"; };
  std::vector<std::size_t> lengths;  // the longest first
  for (std::size_t length = text.size(); length > 0;)
    lengths.push_back(length = character_before(text, length));
  const auto fits = std::ranges::partition_point(
      lengths, [&](std::size_t length) { return measure(cut_at(length)) > width; });
  return cut_at(fits == lengths.end() ? 0 : *fits);
}

}  // namespace keyscope::window

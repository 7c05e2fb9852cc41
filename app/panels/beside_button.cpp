#include "app/panels/beside_button.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace keyscope::window {

BesideButton::BesideButton(PanelContext& context, std::size_t nth, const Rect& row)
    : choice_(context.state().choices[nth]), nth_(nth) {
  const auto& state = context.state();
  const bool selected = choice_.id == session::RunId{0, state.selection.run};
  const float size = selected ? 0 : row.h;
  box_ = {row.right() - size, row.y, size, row.h};
  on_ = std::ranges::find(state.beside, choice_.id) != state.beside.end();
  if (!selected) context.widgets[fmt::format("beside_{}", nth)] = box_;
}

bool BesideButton::under_mouse() const {
  return box_.w > 0 && ImGui::IsMouseHoveringRect({box_.x, box_.y}, {box_.right(), box_.bottom()});
}

// Two tiles, of which the second is this run's.
void BesideButton::draw(PanelContext& context, bool row_hovered) const {
  if (box_.empty()) return;
  const bool hovered = row_hovered && under_mouse();
  if (hovered) {
    const std::string keys = nth_ < 9 ? fmt::format("  Shift + {}", nth_ + 1) : "";
    const std::string does = on_ ? "No longer beside" : "Show beside the selected run";
    const bool refused = !on_ && !choice_.refusal.empty();
    ImGui::SetTooltip("%s",
                      refused ? ("Cannot stand beside: " + choice_.refusal).c_str() : (does + keys).c_str());
  }
  if (!on_ && !row_hovered) return;
  const float w = context.px(6), h = context.px(11), gap = context.px(2);
  const ImVec2 first(box_.x + 0.5F * (box_.w - 2 * w - gap), box_.y + 0.5F * (box_.h - h));
  const ImVec2 second(first.x + w + gap, first.y);
  const ImU32 idle = with_alpha(context.theme.dim, choice_.refusal.empty() ? 0.9F : 0.35F);
  const ImU32 colour = on_ ? context.theme.accent : hovered ? context.theme.text : idle;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRect(first, {first.x + w, first.y + h}, colour, context.px(1));
  if (on_)
    list.AddRectFilled(second, {second.x + w, second.y + h}, colour, context.px(1));
  else
    list.AddRect(second, {second.x + w, second.y + h}, colour, context.px(1));
}

}  // namespace keyscope::window

#include "app/panels/live_controls.hpp"

#include "app/panels/progress_bar.hpp"
#include "app/session/live_text.hpp"

namespace keyscope::window {
namespace {

using session::LiveStage;
using session::LiveStatus;

bool button(PanelContext& context, const char* label, const char* name, float width) {
  const bool clicked = ImGui::Button(label, {width, 0});
  const ImVec2 low = ImGui::GetItemRectMin();
  const ImVec2 high = ImGui::GetItemRectMax();
  context.widgets[name] = {low.x, low.y, high.x - low.x, high.y - low.y};
  return clicked;
}

}  // namespace

float live_controls_height(const PanelContext& context) {
  return context.session.live_status() ? context.px(88) : 0;
}

void draw_live_controls(PanelContext& context) {
  const auto status = context.session.live_status();
  if (!status) return;
  ImGui::Dummy({0, context.px(2)});
  const float room = ImGui::GetContentRegionAvail().x;
  const float height = context.px(6);
  draw_progress_bar(context, ImGui::GetCursorScreenPos(), {room, height}, session::share_done(*status));
  ImGui::Dummy({room, height});
  const std::string text = session::describe_live(*status, *context.state().info);
  dim_text(context, fit_text(context.fonts.small, text, room));
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text.c_str());
  if (!status->going_on()) return;
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  const float width = (room - 2 * gap) / 3;
  const bool paused = status->stage == LiveStage::kPaused;
  if (button(context, paused ? "Run" : "Pause", "pause", width))
    paused ? context.session.resume_live() : context.session.pause_live();
  ImGui::SameLine();
  if (button(context, "Step", "step", width)) context.session.step_live();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Run one block, then pause");
  ImGui::SameLine();
  if (button(context, "Cancel", "cancel", width)) context.session.cancel_live();
}

}  // namespace keyscope::window

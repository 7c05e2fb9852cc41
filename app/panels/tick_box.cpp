#include "app/panels/tick_box.hpp"

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

bool tick_box(const PanelContext& context, const char* label, bool* value) {
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 1);
  ImGui::PushStyleColor(ImGuiCol_Border, context.theme.outline);
  const bool clicked = ImGui::Checkbox(label, value);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  return clicked;
}

}  // namespace keyscope::window

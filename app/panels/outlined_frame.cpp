#include "app/panels/outlined_frame.hpp"

#include <imgui.h>

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

OutlinedFrame::OutlinedFrame(const PanelContext& context) {
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 1);
  ImGui::PushStyleColor(ImGuiCol_Border, context.theme.outline);
}

OutlinedFrame::~OutlinedFrame() {
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

}  // namespace keyscope::window

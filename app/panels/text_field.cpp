#include "app/display/widgets.hpp"

#include <imgui_stdlib.h>

#include "app/panels/outlined_frame.hpp"

namespace keyscope::window {

bool text_field(const PanelContext& context, const char* id, const char* hint, std::string* value,
                ImGuiInputTextFlags flags) {
  const OutlinedFrame outlined(context);
  return ImGui::InputTextWithHint(id, hint, value, flags);
}

bool text_area(const PanelContext& context, const char* id, std::string* value, ImVec2 size) {
  const OutlinedFrame outlined(context);
  return ImGui::InputTextMultiline(id, value, size);
}

bool number_field(const PanelContext& context, const char* id, int* value) {
  const OutlinedFrame outlined(context);
  return ImGui::InputInt(id, value, 0, 0);
}

}  // namespace keyscope::window

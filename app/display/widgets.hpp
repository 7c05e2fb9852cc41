#pragma once

#include <string>

#include <imgui.h>

namespace keyscope::window {

struct PanelContext;

// A line that is typed into, outlined as a tick box is. Returns what ImGui::InputText does.
//   id: "##name"; hint: dim, while it is empty
bool text_field(const PanelContext& context, const char* id, const char* hint, std::string* value,
                ImGuiInputTextFlags flags = 0);

// Several lines of it.
bool text_area(const PanelContext& context, const char* id, std::string* value, ImVec2 size);

// A whole number, without buttons.
bool number_field(const PanelContext& context, const char* id, int* value);

}  // namespace keyscope::window

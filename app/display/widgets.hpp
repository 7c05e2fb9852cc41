#pragma once

#include <string>

#include <imgui.h>

#include "app/display/draw_context.hpp"
#include "app/display/layout.hpp"
#include "app/display/plot_view.hpp"

namespace keyscope::window {

// Notes where the widget that was drawn last is on the screen.
void note_widget(DrawContext& context, const std::string& name);

// A checkbox whose box is outlined, so that it stands out from the panel where it is not ticked. Returns
// whether it was clicked.
bool tick_box(const DrawContext& context, const char* label, bool* value);

// One of several choices, outlined likewise.
//   own: the value that it stands for
bool radio_button(const DrawContext& context, const std::string& label, int* value, int own);

// A line that is typed into, outlined as a tick box is. Returns what ImGui::InputText does.
//   id: "##name"; hint: dim, while it is empty
bool text_field(const DrawContext& context, const char* id, const char* hint, std::string* value,
                ImGuiInputTextFlags flags = 0);

// Several lines of it.
bool text_area(const DrawContext& context, const char* id, std::string* value, ImVec2 size);

// A whole number, without buttons.
bool number_field(const DrawContext& context, const char* id, int* value);

// How far something is, as a bar on the window that is drawn in.
//   share: of the work, from 0 to 1
void draw_progress_bar(const DrawContext& context, ImVec2 at, ImVec2 size, double share);

// The top left corner of a tooltip of the given size about what is under `mouse`: `gap` away from it towards
// the middle of `plot`, and inside the plot where it fits there without covering the mouse, so that the
// panels beside it stay in sight.
Pixel place_tooltip(Pixel mouse, Pixel size, const Rect& plot, float gap);

}  // namespace keyscope::window

#include "app/display/draw_context.hpp"

#include <cfloat>
#include <cstdint>

namespace keyscope::window {

void begin_panel(const char* name, const Rect& rect) {
  ImGui::SetNextWindowPos(ImVec2(rect.x, rect.y));
  ImGui::SetNextWindowSize(ImVec2(rect.width, rect.height));
  constexpr ImGuiWindowFlags kFixed =
      ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
      ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse;
  ImGui::Begin(name, nullptr, kFixed);
}

void end_panel() { ImGui::End(); }

void dim_text(const DrawContext& context, const std::string& text) {
  ImGui::PushFont(context.fonts.small);
  ImGui::PushStyleColor(ImGuiCol_Text, context.theme.dim);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopStyleColor();
  ImGui::PopFont();
}

void heading(const DrawContext& context, const char* text) {
  ImGui::PushFont(context.fonts.bold);
  ImGui::TextUnformatted(text);
  ImGui::PopFont();
}

ImTextureID texture_id(unsigned int texture) {
  // ImGui's OpenGL backend wants the number as a pointer.
  return reinterpret_cast<ImTextureID>(std::uintptr_t{texture});  // NOLINT(performance-no-int-to-ptr)
}

ImVec2 text_size(ImFont* font, const std::string& text) {
  return font->CalcTextSizeA(font->FontSize, FLT_MAX, 0, text.c_str(), text.c_str() + text.size());
}

TextMeasure measure_of(ImFont* font) {
  return [font](const std::string& text) { return text_size(font, text).x; };
}

std::string fit_text(ImFont* font, const std::string& text, float width) {
  return cut_text(text, width, measure_of(font));
}

void draw_text(ImDrawList& list, ImFont* font, ImVec2 at, ImU32 colour, const std::string& text) {
  list.AddText(font, font->FontSize, at, colour, text.c_str(), text.c_str() + text.size());
}

}  // namespace keyscope::window

#include "app/display/draw_context.hpp"

#include <cfloat>

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
  push_font(context.fonts.small);
  ImGui::PushStyleColor(ImGuiCol_Text, context.theme.dim);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopStyleColor();
  ImGui::PopFont();
}

void heading(const DrawContext& context, const char* text) {
  push_font(context.fonts.bold);
  ImGui::TextUnformatted(text);
  ImGui::PopFont();
}

ImTextureID texture_id(unsigned int texture) { return ImTextureID{texture}; }

ImVec2 text_size(const Font& font, const std::string& text) {
  return font.face->CalcTextSizeA(font.size, FLT_MAX, 0, text.c_str(), text.c_str() + text.size());
}

TextMeasure measure_of(const Font& font) {
  return [font](const std::string& text) { return text_size(font, text).x; };
}

std::string fit_text(const Font& font, const std::string& text, float width) {
  return cut_text(text, width, measure_of(font));
}

void draw_text(ImDrawList& list, const Font& font, ImVec2 at, ImU32 colour, const std::string& text) {
  list.AddText(font.face, font.size, at, colour, text.c_str(), text.c_str() + text.size());
}

}  // namespace keyscope::window

#include "app/display/theme.hpp"

namespace keyscope::window {
namespace {

constexpr ImU32 rgb(unsigned hex) {
  return IM_COL32((hex >> 16U) & 0xFFU, (hex >> 8U) & 0xFFU, hex & 0xFFU, 0xFFU);
}

ImVec4 vec4(ImU32 colour) { return ImGui::ColorConvertU32ToFloat4(colour); }

void set_colours(const Theme& theme, ImVec4* colours) {
  const ImVec4 none(0, 0, 0, 0);
  colours[ImGuiCol_Text] = vec4(theme.text);
  colours[ImGuiCol_TextDisabled] = vec4(theme.dim);
  colours[ImGuiCol_WindowBg] = vec4(theme.panel);
  colours[ImGuiCol_ChildBg] = none;
  colours[ImGuiCol_PopupBg] = vec4(theme.panel);
  colours[ImGuiCol_Border] = vec4(theme.border);
  colours[ImGuiCol_BorderShadow] = none;
  for (const int frame : {ImGuiCol_FrameBg, ImGuiCol_Button}) colours[frame] = vec4(theme.hover);
  for (const int frame : {ImGuiCol_FrameBgHovered, ImGuiCol_ButtonHovered, ImGuiCol_FrameBgActive,
                          ImGuiCol_ButtonActive, ImGuiCol_Header, ImGuiCol_HeaderActive})
    colours[frame] = vec4(theme.selected);
  colours[ImGuiCol_HeaderHovered] = vec4(theme.hover);
  colours[ImGuiCol_CheckMark] = colours[ImGuiCol_SliderGrab] = colours[ImGuiCol_SliderGrabActive] =
      vec4(theme.accent);
  colours[ImGuiCol_TitleBg] = colours[ImGuiCol_TitleBgActive] = vec4(theme.panel);
  colours[ImGuiCol_Separator] = vec4(theme.border);
  colours[ImGuiCol_ScrollbarBg] = none;
  colours[ImGuiCol_ScrollbarGrab] = vec4(theme.border);
  colours[ImGuiCol_ScrollbarGrabHovered] = colours[ImGuiCol_ScrollbarGrabActive] = vec4(theme.dim);
  colours[ImGuiCol_TextSelectedBg] = vec4(with_alpha(theme.accent, 0.35F));
  colours[ImGuiCol_ModalWindowDimBg] = ImVec4(0, 0, 0, theme.light ? 0.25F : 0.5F);
  colours[ImGuiCol_NavHighlight] = vec4(theme.accent);
}

}  // namespace

Theme make_theme(bool light) {
  Theme theme;
  theme.light = light;
  theme.ground = rgb(light ? 0xECEFF2 : 0x0E1116);
  theme.panel = rgb(light ? 0xFFFFFF : 0x171B22);
  theme.plot = rgb(light ? 0xFFFFFF : 0x11151B);
  theme.border = rgb(light ? 0xD3D9E0 : 0x2B323D);
  theme.outline = rgb(light ? 0x7E8A97 : 0x6B7684);
  theme.grid = rgb(light ? 0xECEFF3 : 0x1E242D);
  theme.text = rgb(light ? 0x1A2129 : 0xE7EAEE);
  theme.dim = rgb(light ? 0x5A6673 : 0x97A1AE);
  theme.accent = rgb(light ? 0x0072B2 : 0x56B4E9);
  theme.on_accent = rgb(light ? 0xFFFFFF : 0x0B1016);
  theme.hover = rgb(light ? 0xEEF2F6 : 0x212833);
  theme.selected = rgb(light ? 0xD8E9F5 : 0x24384A);
  theme.error = rgb(light ? 0xB33A00 : 0xFF8A50);
  theme.missing = rgb(light ? 0xE3E6EA : 0x262C36);
  return theme;
}

void apply_theme(const Theme& theme, float scale) {
  ImGuiStyle style;
  style.WindowRounding = 6;
  style.ChildRounding = 4;
  style.FrameRounding = 4;
  style.PopupRounding = 6;
  style.ScrollbarRounding = 6;
  style.ScrollbarSize = 10;
  style.GrabRounding = 4;
  style.WindowBorderSize = 1;
  style.PopupBorderSize = 1;
  style.WindowPadding = ImVec2(12, 10);
  style.FramePadding = ImVec2(9, 5);
  style.ItemSpacing = ImVec2(8, 6);
  style.ItemInnerSpacing = ImVec2(6, 4);
  style.WindowMinSize = ImVec2(16, 16);
  style.ScaleAllSizes(scale);
  style.WindowBorderSize = style.PopupBorderSize = 1;
  set_colours(theme, style.Colors);
  ImGui::GetStyle() = style;
}

ImU32 to_colour(figures::Colour colour, float alpha) {
  return IM_COL32(colour.r, colour.g, colour.b, static_cast<int>(255 * alpha + 0.5F));
}

ImU32 ink_colour(const Theme& theme, figures::Colour colour, float alpha) {
  return colour == figures::kBlack || colour == figures::kCharcoal ? with_alpha(theme.text, alpha)
                                                                   : to_colour(colour, alpha);
}

ImU32 text_on(ImU32 ground) {
  const ImVec4 c = ImGui::ColorConvertU32ToFloat4(ground);
  const bool dark = 0.299F * c.x + 0.587F * c.y + 0.114F * c.z < 0.55F;
  return dark ? IM_COL32(255, 255, 255, 235) : IM_COL32(16, 20, 26, 235);
}

ImU32 with_alpha(ImU32 colour, float alpha) {
  const auto a = static_cast<ImU32>(255 * alpha + 0.5F);
  return (colour & ~IM_COL32_A_MASK) | (a << IM_COL32_A_SHIFT);
}

}  // namespace keyscope::window

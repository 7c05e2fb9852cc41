#include "app/display/theme.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fontconfig/fontconfig.h>
#include <implot.h>

namespace keyscope::window {

namespace {

constexpr float kTextPx = 14;

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
  colours[ImGuiCol_CheckMark] = vec4(theme.accent);
  // The number that a grab lies over can be read.
  colours[ImGuiCol_SliderGrab] = colours[ImGuiCol_SliderGrabActive] = vec4(with_alpha(theme.accent, 0.55F));
  colours[ImGuiCol_TitleBg] = colours[ImGuiCol_TitleBgActive] = vec4(theme.background);
  for (const int tab : {ImGuiCol_Tab, ImGuiCol_TabDimmed, ImGuiCol_TitleBgCollapsed})
    colours[tab] = vec4(theme.background);
  for (const int tab : {ImGuiCol_TabSelected, ImGuiCol_TabDimmedSelected}) colours[tab] = vec4(theme.panel);
  colours[ImGuiCol_TabHovered] = vec4(theme.hover);
  colours[ImGuiCol_TabSelectedOverline] = vec4(theme.accent);
  colours[ImGuiCol_TabDimmedSelectedOverline] = vec4(theme.border);
  colours[ImGuiCol_DockingPreview] = vec4(with_alpha(theme.accent, 0.4F));
  colours[ImGuiCol_DockingEmptyBg] = vec4(theme.background);
  for (const int line :
       {ImGuiCol_Separator, ImGuiCol_TableBorderStrong, ImGuiCol_TableBorderLight, ImGuiCol_ResizeGrip})
    colours[line] = vec4(theme.border);
  for (const int line : {ImGuiCol_SeparatorHovered, ImGuiCol_SeparatorActive, ImGuiCol_ResizeGripHovered,
                         ImGuiCol_ResizeGripActive, ImGuiCol_DragDropTarget, ImGuiCol_TextLink})
    colours[line] = vec4(theme.accent);
  colours[ImGuiCol_TableHeaderBg] = vec4(theme.background);
  colours[ImGuiCol_TableRowBg] = none;
  colours[ImGuiCol_TableRowBgAlt] = vec4(with_alpha(theme.hover, 0.5F));
  colours[ImGuiCol_InputTextCursor] = vec4(theme.text);
  colours[ImGuiCol_ScrollbarBg] = none;
  colours[ImGuiCol_ScrollbarGrab] = vec4(theme.border);
  colours[ImGuiCol_ScrollbarGrabHovered] = colours[ImGuiCol_ScrollbarGrabActive] = vec4(theme.dim);
  colours[ImGuiCol_TextSelectedBg] = vec4(with_alpha(theme.accent, 0.35F));
  colours[ImGuiCol_ModalWindowDimBg] = ImVec4(0, 0, 0, theme.light ? 0.25F : 0.5F);
  colours[ImGuiCol_NavCursor] = vec4(theme.accent);
}

}  // namespace

Theme make_theme(bool light) {
  Theme theme;
  theme.light = light;
  theme.background = rgb(light ? 0xECEFF2 : 0x0E1116);
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

namespace {

void apply_plot_theme(const Theme& theme, float scale) {
  ImPlotStyle style;
  style.PlotPadding = ImVec2(4 * scale, 6 * scale);
  style.LabelPadding = ImVec2(5 * scale, 4 * scale);
  style.PlotMinSize = ImVec2(40 * scale, 20 * scale);
  style.MajorTickLen = style.MinorTickLen = ImVec2(0, 0);
  style.MinorAlpha = 0.7F;
  style.Colors[ImPlotCol_FrameBg] = style.Colors[ImPlotCol_AxisBg] = ImVec4(0, 0, 0, 0);
  style.Colors[ImPlotCol_PlotBg] = vec4(theme.plot);
  style.Colors[ImPlotCol_PlotBorder] = vec4(theme.border);
  style.Colors[ImPlotCol_AxisGrid] = vec4(theme.grid);
  style.Colors[ImPlotCol_AxisText] = vec4(theme.dim);
  style.Colors[ImPlotCol_AxisBgHovered] = vec4(theme.hover);
  style.Colors[ImPlotCol_AxisBgActive] = vec4(theme.selected);
  style.Colors[ImPlotCol_Selection] = vec4(theme.accent);
  ImPlot::GetStyle() = style;
}

}  // namespace

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
  style.WindowMenuButtonPosition = ImGuiDir_None;
  style.DockingSeparatorSize = 4;
  style.TabBarOverlineSize = 2;
  style.TabMinWidthShrink = 52;  // seven views are tabs in a narrow window, rather than behind an arrow
  style.TabCloseButtonMinWidthSelected = style.TabCloseButtonMinWidthUnselected =
      0;  // where it is pointed at
  style.ScaleAllSizes(scale);
  style.FontSizeBase = std::round(kTextPx * scale);
  style.WindowBorderSize = style.PopupBorderSize = 1;
  set_colours(theme, style.Colors);
  ImGui::GetStyle() = style;
  apply_plot_theme(theme, scale);
}

ImU32 to_colour(figures::Colour colour, float alpha) {
  return IM_COL32(colour.r, colour.g, colour.b, std::lround(255 * alpha));
}

ImU32 ink_colour(const Theme& theme, figures::Colour colour, float alpha) {
  return colour == figures::kBlack || colour == figures::kCharcoal ? with_alpha(theme.text, alpha)
                                                                   : to_colour(colour, alpha);
}

ImU32 text_on(ImU32 background) {
  const ImVec4 c = ImGui::ColorConvertU32ToFloat4(background);
  const bool dark = 0.299F * c.x + 0.587F * c.y + 0.114F * c.z < 0.55F;
  return dark ? IM_COL32(255, 255, 255, 235) : IM_COL32(16, 20, 26, 235);
}

ImU32 with_alpha(ImU32 colour, float alpha) {
  const auto a = static_cast<ImU32>(std::lround(255 * alpha));
  return (colour & ~IM_COL32_A_MASK) | (a << IM_COL32_A_SHIFT);
}

namespace {

std::string first_existing(std::initializer_list<const char*> paths) {
  std::error_code error;
  for (const char* path : paths)
    if (std::filesystem::is_regular_file(path, error)) return path;
  return {};
}

std::string regular_path() {
  return first_existing({"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
                         "/usr/share/fonts/TTF/DejaVuSans.ttf",
                         "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
                         "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
                         "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf"});
}

std::string bold_path() {
  return first_existing({"/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf",
                         "/usr/share/fonts/TTF/DejaVuSans-Bold.ttf",
                         "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans-Bold.ttf",
                         "/usr/share/fonts/truetype/noto/NotoSans-Bold.ttf",
                         "/usr/share/fonts/truetype/liberation/LiberationSans-Bold.ttf"});
}

std::string mono_path() {
  return first_existing({"/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
                         "/usr/share/fonts/TTF/DejaVuSansMono.ttf",
                         "/usr/share/fonts/dejavu-sans-mono-fonts/DejaVuSansMono.ttf",
                         "/usr/share/fonts/truetype/noto/NotoSansMono-Regular.ttf",
                         "/usr/share/fonts/truetype/liberation/LiberationMono-Regular.ttf"});
}

ImFont* add_font(const std::string& path) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  if (!path.empty())
    if (ImFont* font = atlas.AddFontFromFileTTF(path.c_str())) return font;
  return atlas.AddFontDefaultVector();
}

}  // namespace

Fonts load_fonts(float scale) {
  const std::string bold_file = bold_path().empty() ? regular_path() : bold_path();
  const std::string mono_file = mono_path().empty() ? regular_path() : mono_path();
  ImFont* regular = add_font(regular_path());
  ImFont* bold = add_font(bold_file);
  const auto size = [&](float px) { return std::round(px * scale); };
  return {{regular, size(kTextPx)},
          {bold, size(kTextPx)},
          {regular, size(12)},
          {bold, size(17)},
          {add_font(mono_file), size(13)}};
}

void push_font(const Font& font) { ImGui::PushFont(font.face, font.size); }

bool has_glyph(const Fonts& fonts, char32_t character) {
  return character < 0x20 || character > IM_UNICODE_CODEPOINT_MAX ||
         fonts.mono.face->IsGlyphInFont(static_cast<ImWchar>(character));
}

void add_fallbacks(const Fonts& fonts, const std::set<char32_t>& missing) {
  for (const FallbackFont& font : fallback_fonts(missing))
    for (ImFont* face : {fonts.mono.face, fonts.small.face}) {
      ImFontConfig config;
      config.MergeMode = true;
      config.DstFont = face;
      config.FontNo = static_cast<ImU32>(font.index);
      ImGui::GetIO().Fonts->AddFontFromFileTTF(font.path.c_str(), 0, &config);
    }
}

namespace {

template <auto kDestroy>
struct Destroy {
  void operator()(auto* object) const { kDestroy(object); }
};
using Pattern = std::unique_ptr<FcPattern, Destroy<FcPatternDestroy>>;
using CharSet = std::unique_ptr<FcCharSet, Destroy<FcCharSetDestroy>>;
using FontSet = std::unique_ptr<FcFontSet, Destroy<FcFontSetDestroy>>;

// Fonts that are likely to have what is wanted first, each with its own characters.
FontSet sorted_fonts(const std::set<char32_t>& wanted) {
  const CharSet characters(FcCharSetCreate());
  for (const char32_t character : wanted) FcCharSetAddChar(characters.get(), character);
  const Pattern pattern(FcPatternCreate());
  FcPatternAddCharSet(pattern.get(), FC_CHARSET, characters.get());
  FcPatternAddBool(pattern.get(), FC_SCALABLE, FcTrue);
  FcConfigSubstitute(nullptr, pattern.get(), FcMatchPattern);
  FcDefaultSubstitute(pattern.get());
  FcResult result = FcResultNoMatch;
  return FontSet(FcFontSort(nullptr, pattern.get(), FcTrue, nullptr, &result));
}

bool is_outline(FcPattern* font) {
  FcBool scalable = FcFalse, colour = FcFalse;
  FcPatternGetBool(font, FC_SCALABLE, 0, &scalable);
  FcPatternGetBool(font, FC_COLOR, 0, &colour);
  FcChar8* format = nullptr;
  if (FcPatternGetString(font, FC_FONTFORMAT, 0, &format) != FcResultMatch) return false;
  const std::string_view name = reinterpret_cast<const char*>(format);
  return scalable == FcTrue && colour == FcFalse && (name == "TrueType" || name == "CFF");
}

// Takes what the font has out of `wanted`.
FallbackFont take_from(FcPattern* font, std::set<char32_t>& wanted) {
  FallbackFont found;
  FcChar8* path = nullptr;
  FcCharSet* characters = nullptr;
  if (FcPatternGetString(font, FC_FILE, 0, &path) != FcResultMatch ||
      FcPatternGetCharSet(font, FC_CHARSET, 0, &characters) != FcResultMatch)
    return found;
  found.path = reinterpret_cast<const char*>(path);
  FcPatternGetInteger(font, FC_INDEX, 0, &found.index);
  std::erase_if(wanted, [&](char32_t character) {
    if (FcCharSetHasChar(characters, character) != FcTrue) return false;
    found.glyphs.insert(character);
    return true;
  });
  return found;
}

}  // namespace

std::vector<FallbackFont> fallback_fonts(std::set<char32_t> wanted) {
  std::vector<FallbackFont> fonts;
  if (wanted.empty()) return fonts;
  const FontSet sorted = sorted_fonts(wanted);
  if (!sorted) return fonts;
  for (int i = 0; i < sorted->nfont && !wanted.empty(); ++i) {
    if (!is_outline(sorted->fonts[i])) continue;
    FallbackFont font = take_from(sorted->fonts[i], wanted);
    if (!font.glyphs.empty()) fonts.push_back(std::move(font));
  }
  return fonts;
}

}  // namespace keyscope::window

#include "app/window/fonts.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <system_error>

#include <imgui_freetype.h>

namespace keyscope::window {
namespace {

// First and last code points, pairwise.
constexpr ImWchar kUiGlyphs[] = {0x20,   0x17F,  0x370,  0x3FF,  0x2010, 0x205E, 0x2070, 0x208E, 0x2190,
                                 0x21FF, 0x2200, 0x22FF, 0x25A0, 0x25FF, 0xFFFD, 0xFFFD, 0};
constexpr ImWchar kTokenGlyphs[] = {0x20,   0x52F,  0x1E00, 0x1EFF, 0x2010, 0x205E, 0x2070, 0x209F,
                                    0x20A0, 0x20BF, 0x2100, 0x214F, 0x2150, 0x218F, 0x2190, 0x23FF,
                                    0x2500, 0x25FF, 0x2600, 0x27BF, 0xFFFD, 0xFFFD, 0};

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

ImFont* add_font(const std::string& path, float size_px, const ImWchar* glyphs) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  if (!path.empty())
    if (ImFont* font = atlas.AddFontFromFileTTF(path.c_str(), std::round(size_px), nullptr, glyphs))
      return font;
  ImFontConfig built_in;
  built_in.SizePixels = std::max(13.0F, 13 * std::round(size_px / 14));
  return atlas.AddFontDefault(&built_in);
}

}  // namespace

Fonts load_fonts(float scale) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  atlas.FontBuilderIO = ImGuiFreeType::GetBuilderForFreeType();
  atlas.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
  const std::string regular = regular_path();
  const std::string bold = bold_path().empty() ? regular : bold_path();
  const std::string mono = mono_path().empty() ? regular : mono_path();
  Fonts fonts;
  fonts.regular = add_font(regular, 14 * scale, kUiGlyphs);
  fonts.bold = add_font(bold, 14 * scale, kUiGlyphs);
  fonts.small = add_font(regular, 12 * scale, kUiGlyphs);
  fonts.title = add_font(bold, 17 * scale, kUiGlyphs);
  fonts.mono = add_font(mono, 13 * scale, kTokenGlyphs);
  atlas.Build();
  return fonts;
}

}  // namespace keyscope::window

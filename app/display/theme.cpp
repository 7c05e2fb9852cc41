#include "app/window/fonts.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <system_error>
#include <vector>

#include <imgui_freetype.h>

#include "app/window/fallback_fonts.hpp"

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

// First and last code points, pairwise, as ImGui wants them: up to the ends of what its characters hold.
std::vector<ImWchar> ranges_of(const std::set<char32_t>& characters) {
  std::vector<ImWchar> ranges;
  for (const char32_t character : characters)
    if (character <= IM_UNICODE_CODEPOINT_MAX)
      ranges.insert(ranges.end(), 2, static_cast<ImWchar>(character));
  if (!ranges.empty()) ranges.push_back(0);
  return ranges;
}

// Characters behind those of the font that was added last. The ranges have to outlive the atlas' making.
class Fallbacks {
 public:
  explicit Fallbacks(const std::set<char32_t>& more) : fonts_(fallback_fonts(more)) {
    for (const FallbackFont& font : fonts_) ranges_.push_back(ranges_of(font.glyphs));
  }

  void merge(float size_px) const {
    for (std::size_t i = 0; i < fonts_.size(); ++i) {
      if (ranges_[i].empty()) continue;
      ImFontConfig config;
      config.MergeMode = true;
      config.FontNo = fonts_[i].index;
      ImGui::GetIO().Fonts->AddFontFromFileTTF(fonts_[i].path.c_str(), std::round(size_px), &config,
                                               ranges_[i].data());
    }
  }

 private:
  std::vector<FallbackFont> fonts_;
  std::vector<std::vector<ImWchar>> ranges_;
};

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

bool has_glyph(const Fonts& fonts, char32_t character) {
  return character < 0x20 || character > IM_UNICODE_CODEPOINT_MAX ||
         fonts.mono->FindGlyphNoFallback(static_cast<ImWchar>(character)) != nullptr;
}

Fonts load_fonts(float scale, const std::set<char32_t>& more) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  atlas.FontBuilderIO = ImGuiFreeType::GetBuilderForFreeType();
  atlas.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
  const std::string regular = regular_path();
  const std::string bold = bold_path().empty() ? regular : bold_path();
  const std::string mono = mono_path().empty() ? regular : mono_path();
  const Fallbacks fallbacks(more);
  Fonts fonts;
  fonts.regular = add_font(regular, 14 * scale, kUiGlyphs);
  fonts.bold = add_font(bold, 14 * scale, kUiGlyphs);
  fonts.small = add_font(regular, 12 * scale, kUiGlyphs);
  fallbacks.merge(12 * scale);  // tokens' texts stand beside matrices
  fonts.title = add_font(bold, 17 * scale, kUiGlyphs);
  fonts.mono = add_font(mono, 13 * scale, kTokenGlyphs);
  fallbacks.merge(13 * scale);
  atlas.Build();
  return fonts;
}

}  // namespace keyscope::window

#include "app/window/fallback_fonts.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include <fontconfig/fontconfig.h>

namespace keyscope::window {
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

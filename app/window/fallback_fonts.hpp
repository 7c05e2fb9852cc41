#pragma once

#include <set>
#include <string>
#include <vector>

namespace keyscope::window {

// A font of the system, and what of a text is to be drawn with it.
struct FallbackFont {
  std::string path;
  int index = 0;  // of the font in its file
  std::set<char32_t> glyphs;
};

// The system's outline fonts, in its own order of preference, that have glyphs for `wanted`: each code point
// with the first font that has it. What no font has is in none; without any configuration of fonts all are
// missing.
std::vector<FallbackFont> fallback_fonts(std::set<char32_t> wanted);

}  // namespace keyscope::window

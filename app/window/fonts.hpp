#pragma once

#include <set>

#include <imgui.h>

namespace keyscope::window {

struct Fonts {
  ImFont* regular = nullptr;
  ImFont* bold = nullptr;
  ImFont* small = nullptr;
  ImFont* title = nullptr;
  ImFont* mono = nullptr;  // tokens
};

// Loads DejaVu (or another font of the system) at sizes for `scale`, with the glyphs that tokens of European
// languages, code and mathematics need; ImGui's built-in font where there is none. Not within a frame.
//   more: what else is to be drawn, with whichever font of the system has it
Fonts load_fonts(float scale, const std::set<char32_t>& more = {});

// Whether the font for tokens has a glyph, or could have none: ImGui's characters end with the first plane.
bool has_glyph(const Fonts& fonts, char32_t character);

}  // namespace keyscope::window

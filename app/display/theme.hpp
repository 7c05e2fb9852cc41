#pragma once

#include <set>
#include <string>
#include <vector>

#include <imgui.h>

#include "app/figures/figure.hpp"

namespace keyscope::window {

// The window's colours. Data keep the figures' colours in both themes; the backgrounds are chosen for them.
struct Theme {
  bool light = false;
  ImU32 background = 0;  // behind the panels
  ImU32 panel = 0;
  ImU32 plot = 0;  // behind the points
  ImU32 border = 0;
  ImU32 outline = 0;  // of what is clicked: stands out from the panel, which a border need not
  ImU32 grid = 0;
  ImU32 text = 0;
  ImU32 dim = 0;        // labels, units, what is unselected
  ImU32 accent = 0;     // selection, focus
  ImU32 on_accent = 0;  // text on it
  ImU32 hover = 0;      // rows under the cursor
  ImU32 selected = 0;
  ImU32 error = 0;
  ImU32 missing = 0;  // values that do not exist
};

Theme make_theme(bool light);

// Sets ImGui's style by the theme, its sizes multiplied by `scale`.
void apply_theme(const Theme& theme, float scale);

ImU32 to_colour(figures::Colour colour, float alpha = 1);
// Of what a figure draws: its blacks are the ink's colour, which is light on a dark background.
ImU32 ink_colour(const Theme& theme, figures::Colour colour, float alpha = 1);
ImU32 with_alpha(ImU32 colour, float alpha);
ImU32 text_on(ImU32 background);  // black or white, whichever is easier to read there

// A face at a size in pixels.
struct Font {
  ImFont* face = nullptr;
  float size = 0;
};

struct Fonts {
  Font regular, bold, small, title;
  Font mono;  // tokens
};

// Loads DejaVu (or another font of the system) at sizes for `scale`; ImGui's built-in font where there is
// none.
Fonts load_fonts(float scale);

// ImGui's text is in it until ImGui::PopFont.
void push_font(const Font& font);

// Whether tokens can be drawn with it: their font has a glyph, or could have none, for ImGui's characters end
// with the first plane.
bool has_glyph(const Fonts& fonts, char32_t character);

// Puts other fonts of the system behind those of tokens and small text, for what they lack.
void add_fallbacks(const Fonts& fonts, const std::set<char32_t>& missing);

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

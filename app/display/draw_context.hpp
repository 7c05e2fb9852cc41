#pragma once

#include <map>
#include <string>

#include <imgui.h>

#include "app/display/layout.hpp"
#include "app/display/theme.hpp"

namespace keyscope::window {

// What everything in the window is drawn with.
struct DrawContext {
  const Theme& theme;
  const Fonts& fonts;
  float scale = 1;  // of sizes in pixels

  std::map<std::string, Rect> widgets = {};  // where things are on the screen, for tests and the state file
  bool wants_frames = false;                 // something moves: draw the next frame without waiting

  float px(float value) const { return value * scale; }
};

// A panel without title bar at a fixed place. Between them, ImGui's cursor is inside it.
void begin_panel(const char* name, const Rect& rect);
void end_panel();

// Text in the theme's dim colour, in the small font.
void dim_text(const DrawContext& context, const std::string& text);

// The heading of a panel.
void heading(const DrawContext& context, const char* text);

// How wide a text is in a font.
TextMeasure measure_of(const Font& font);

// `text` cut to `width` pixels, with an ellipsis where it was cut.
std::string fit_text(const Font& font, const std::string& text, float width);

void draw_text(ImDrawList& list, const Font& font, ImVec2 at, ImU32 colour, const std::string& text);
ImVec2 text_size(const Font& font, const std::string& text);

// An OpenGL texture by the name that ImGui takes.
ImTextureID texture_id(unsigned int texture);

}  // namespace keyscope::window

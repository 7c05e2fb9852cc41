#pragma once

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
// languages, code and mathematics need; ImGui's built-in font where there is none.
Fonts load_fonts(float scale);

}  // namespace keyscope::window

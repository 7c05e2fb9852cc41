#pragma once

#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// One marker of a figure at `at`, outlined in `outline` so that it stands off the points under it.
void draw_marker(ImDrawList& list, figures::Marker marker, ImVec2 at, float diameter, ImU32 fill,
                 ImU32 outline);

// Text that reads upwards, its centre at `centre`.
void draw_vertical_text(ImDrawList& list, ImFont* font, ImVec2 centre, ImU32 colour, const std::string& text);

// Lines of it one after another towards the right, each at the middle of the first's height.
//   at: the left edge of the first line, and the middle of all of them
void draw_vertical_lines(ImDrawList& list, ImFont* font, ImVec2 at, ImU32 colour,
                         const std::vector<std::string>& lines);

}  // namespace keyscope::window

#pragma once

#include <functional>
#include <string>

#include "app/figures/scales.hpp"

namespace keyscope::window {

using Rect = figures::Rectangle<float>;

// Where the panels lie at first, in pixels. They fill what is between the bars without overlap at any size.
// The middle comes first: where it would become too small, the token's column is left out (its facts are in
// the tooltip), then heads and policies (keys select them); the timeline where there is not the height (keys
// step through it). A panel that is left out has an empty rectangle.
struct Layout {
  Rect heads, runs, middle, token, timeline;
};

//   width, height: between the bars; scale: of fonts and spacing
//   runs_height: what the list of runs would like, in pixels; it gets at most half of its column
Layout make_layout(float width, float height, float scale, float runs_height);

// Width in pixels of a text.
using TextMeasure = std::function<float(const std::string& text)>;

// `text` cut to `width` pixels, with an ellipsis where it was cut.
std::string cut_text(const std::string& text, float width, const TextMeasure& measure);

}  // namespace keyscope::window

#pragma once

#include <functional>
#include <string>
#include <vector>

namespace keyscope::window {

// Width in pixels of a text.
using TextMeasure = std::function<float(const std::string& text)>;

// `text` cut to `width` pixels, with an ellipsis where it was cut.
std::string cut_text(const std::string& text, float width, const TextMeasure& measure);

// A name as it is set along an axis or a colour bar of `room` pixels: on one line where it fits, else on two
// that are broken between words and as alike in length as can be. What does not fit on two is cut at the end
// of the second.
std::vector<std::string> name_lines(const std::string& name, float room, const TextMeasure& measure);

}  // namespace keyscope::window

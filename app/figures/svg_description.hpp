#pragma once

#include <string>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

// An svg with the figure's words in it: cairo writes text as outlines, which look the same everywhere but
// which neither a search nor a screen reader finds. Title, caption, labels and legend go into <title> and
// <desc>.
std::string with_description(std::string svg, const Figure& figure);

}  // namespace keyscope::figures

#pragma once

#include "app/figures/page.hpp"

namespace keyscope::figures {

inline constexpr double kColourBarWidth = 8;  // points
inline constexpr double kColourBarGap = 7;

// Width that a colour bar with ticks and label takes, right of the plot.
double colour_bar_extent(cairo_t* cairo, const ColourScale& scale, double height);

// Draws the bar with its ticks and label; `bar` is the bar alone. Categories are blocks with their names, the
// first at the top.
void draw_colour_bar(const Page& page, const ColourScale& scale, const Box& bar);

}  // namespace keyscope::figures

#pragma once

#include "app/figures/page.hpp"

namespace keyscope::figures {

// Draws a heatmap's cells so that they fill `plot` up to its last column and row. Cells finer than the page's
// pixels are reduced first, in the heatmap's own way, so that single bright columns never vanish.
void draw_heatmap(const Page& page, const Heatmap& heatmap, const Box& plot);

// Writes every cell's value into it, dark on light and light on dark, where the numbers fit; nothing for NaN.
// A heatmap without `decimals` has none.
void draw_cell_numbers(const Page& page, const Heatmap& heatmap, const Box& plot);

}  // namespace keyscope::figures

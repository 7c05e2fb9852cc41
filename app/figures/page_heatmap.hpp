#pragma once

#include "app/figures/page.hpp"
#include "app/figures/plot_range.hpp"

namespace keyscope::figures {

// Where a heatmap's cells lie in a plot of these ranges: all of it where the ranges are the heatmap's own.
Box cells_box(const Heatmap& heatmap, const PanelRanges& ranges, const Box& plot);

// Draws a heatmap's cells so that they fill `cells` up to its last column and row. Cells finer than the
// page's pixels are reduced first, in the heatmap's own way, so that single bright columns never vanish.
void draw_heatmap(const Page& page, const Heatmap& heatmap, const Box& cells);

// Writes every cell's value into it, dark on light and light on dark, where the numbers fit; nothing for NaN.
// A heatmap without `decimals` has none.
void draw_cell_numbers(const Page& page, const Heatmap& heatmap, const Box& cells);

}  // namespace keyscope::figures

#pragma once

#include "app/drawing/page_layout.hpp"

namespace keyscope::figures {

// Places small multiples from `y` down: cells of one size in a grid, the names of its columns above and of
// its rows to the right, the labels of the axes and the colour bar once for all. Ticks stand at the outer
// cells where all cells have the same axes, and nowhere else. The grid is at most as high as a page; below a
// legible size of its cells it grows.
//   figure: with `multiples`, a panel for each
//   returns where the grid ends; sets the page's panels and texts
double place_multiples(cairo_t* cairo, const Figure& figure, double y, PageLayout& page);

}  // namespace keyscope::figures

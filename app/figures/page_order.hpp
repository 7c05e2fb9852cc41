#pragma once

#include "app/figures/figure.hpp"
#include "app/figures/page.hpp"
#include "app/drawing/page_layout.hpp"

namespace keyscope::figures {

// What stands above an ordered matrix: its tree in thin lines, and below that what the cache still held, so
// that shape says it as well as colour: full bars of retained keys, half as high those of evicted ones.

// The height that it takes above the plot, in points; 0: nothing stands there.
double order_height(const Panel& panel, double plot_width);

void draw_order(const Page& page, const Panel& panel, const PanelLayout& place);

}  // namespace keyscope::figures

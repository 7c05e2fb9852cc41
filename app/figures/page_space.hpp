#pragma once

#include <vector>

#include "app/drawing/page_layout.hpp"
#include "app/figures/page_markers.hpp"

namespace keyscope::figures {

// A panel of three dimensions seen from a fixed place, without perspective: the frame with its labels, and
// where every point of the panel lies on the page, the farthest first.
void draw_space_frame(const Page& page, const Panel& panel, const PanelLayout& place);
std::vector<PlacedPoint> place_in_space(const Panel& panel, const PanelLayout& place);

}  // namespace keyscope::figures

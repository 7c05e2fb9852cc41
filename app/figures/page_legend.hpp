#pragma once

#include "app/drawing/page_layout.hpp"

namespace keyscope::figures {

// Which looks stand in the figure's legend and which in a panel's own: a panel that shares no series with any
// other, in a figure of several, has its own. Series without points have no entry.
struct LegendPlan {
  Legend figure;
  std::vector<Legend> panels;
};
LegendPlan plan_legends(const Figure& figure);

// Places the entries in centred rows inside a box of the given width; sets boxes and height.
void place_legend(cairo_t* cairo, Legend& legend, double x, double y, double width);

void draw_legend(const Page& page, const Legend& legend);

}  // namespace keyscope::figures

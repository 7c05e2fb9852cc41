#pragma once

#include <vector>

#include <imgui.h>

#include "app/figures/figure.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/theme.hpp"

namespace keyscope::window {

// A line's points on the screen, in stretches without gaps (a value that is not finite is one). Points that
// fall into one column of pixels become at most four of them (first, lowest, highest, last), which draw the
// same picture: a line of 100,000 points costs no more than the plot is wide.
std::vector<std::vector<Pixel>> thinned_line(const figures::LineSeries& series, const PlotView& view);

// All of a series, with its marker where it has one.
//   width: of the line, in pixels
void draw_line(ImDrawList& list, const Theme& theme, const figures::LineSeries& series, const PlotView& view,
               float width, float marker_px);

// What lies between a band's edges, lightly; a value that is not finite is a gap.
void draw_band(ImDrawList& list, const Theme& theme, const figures::BandSeries& band, const PlotView& view);

}  // namespace keyscope::window

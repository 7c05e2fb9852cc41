#pragma once

#include "app/panels/layout.hpp"
#include "app/display/plot_view.hpp"

namespace keyscope::window {

// The top left corner of a tooltip of the given size about what is under `mouse`: `gap` away from it towards
// the middle of `plot`, and inside the plot where it fits there without covering the mouse, so that the
// panels beside it stay in sight.
Pixel place_tooltip(Pixel mouse, Pixel size, const Rect& plot, float gap);

}  // namespace keyscope::window

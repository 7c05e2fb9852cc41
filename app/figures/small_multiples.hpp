#pragma once

#include "app/figures/builders.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/catalogue.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// One figure of a head for many heads at once: a cell for every layer (rows) and head (columns) of
// request.grid, each the first panel of what `builder` makes of that head. One run: the one asked for, by
// default `none` or the first, and for the key space the first that evicts. Colour scales are common to all
// cells, and so are axes but those of the key space, where every head has its own.
//   builder: of a figure that understands "layers"
//   throws as check_small_multiples and as the builder does
Figure small_multiples_figure(const recording::Recording& recording, const Builder& builder,
                              const FigureRequest& request);

// All checks of the request, without building anything.
//   throws UsageError on a run, layer, head or block that is not there, on several runs, on three components,
//   and on more than 1,000 cells
void check_small_multiples(const recording::RecordingInfo& info, const Builder& builder,
                           const FigureRequest& request);

}  // namespace keyscope::figures

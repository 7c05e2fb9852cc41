#pragma once

#include <optional>

#include "app/panels/panel_context.hpp"
#include "app/panels/plot_view.hpp"

namespace keyscope::window {

// The mouse in a plot, as in ImPlot: left-drag pans, the wheel zooms at the cursor, right-drag zooms to a
// box. What else it means is the plot's own matter.
class PlotMouse {
 public:
  struct Outcome {
    std::optional<Pixel> over;  // where the cursor is in the plot, unless it drags
    bool clicked = false;       // the left button was released there without a drag
    bool fit = false;           // double-click
    bool menu = false;          // the right button was released without a drag
  };

  // To be called straight after the plot's InvisibleButton, which takes the left and the right button.
  Outcome handle(const PanelContext& context, PlotView& view);

  // The box that is being drawn.
  void draw(const PanelContext& context) const;

 private:
  std::optional<Pixel> box_from_;  // where a right-drag began
  std::optional<Pixel> dragged_;   // how far the left-drag under way has panned
};

}  // namespace keyscope::window

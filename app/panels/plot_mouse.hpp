#pragma once

#include <optional>
#include <vector>

#include "app/panels/panel_context.hpp"
#include "app/display/plot_view.hpp"

namespace keyscope::window {

// What a plot can do with the mouse besides panning and zooming.
struct PlotAbilities {
  bool turns = false;
  bool selects = false;
};

// The mouse in a plot, as in ImPlot: left-drag and middle-drag pan, the wheel zooms at the cursor. A plot of
// space is turned by left-drag, and panned by it with Shift. Right-drag selects what lies in a box, with
// Shift inside an outline, and with Ctrl zooms to the box; where nothing can be selected it always zooms.
class PlotMouse {
 public:
  struct Outcome {
    std::optional<Pixel> over;   // where the cursor is in the plot, unless it drags
    bool clicked = false;        // the left button was released there without a drag
    bool fit = false;            // double-click
    bool menu = false;           // the right button was released without a drag
    Pixel turned;                // by how many pixels the plot was dragged round since the last frame
    std::vector<Pixel> outline;  // that was drawn to select what lies in it; closed by itself
  };

  // To be called straight after the plot's InvisibleButton, which takes the buttons that are to be heeded.
  Outcome handle(const PanelContext& context, PlotView& view, const PlotAbilities& abilities = {});

  // The box or the outline that is being drawn.
  void draw(const PanelContext& context) const;

  // Whether the left or the middle button drags the plot.
  bool drags() const { return dragged_.has_value(); }

 private:
  enum class Tool { kNone, kZoom, kBox, kOutline };

  void drag(const PanelContext& context, PlotView& view, const PlotAbilities& abilities, Outcome& outcome);
  void draw_with_tool(const PanelContext& context, PlotView& view, const PlotAbilities& abilities,
                      Outcome& outcome);

  Tool tool_ = Tool::kNone;
  std::vector<Pixel> trail_;      // where the tool has been; of a box its corner
  std::optional<Pixel> dragged_;  // how far the drag under way has come
  bool turning_ = false;          // that drag turns the plot
};

}  // namespace keyscope::window

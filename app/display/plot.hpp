#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/display/draw_context.hpp"
#include "app/display/heatmap_layer.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/point_layer.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::window {

// What the mouse did in a plot, besides panning and zooming it.
struct PlotMouse {
  std::optional<Pixel> over;   // where the cursor is in the plot, unless it drags
  bool clicked = false;        // the left button was released there without a drag
  bool fit = false;            // double-click
  bool menu = false;           // the right button was released without a drag
  Pixel turned;                // by how many pixels space was dragged round since the last frame
  std::vector<Pixel> outline;  // that was drawn to select what lies in it; closed by itself
};

// The axes of a figure's panel on the screen, by ImPlot: left-drag pans, the wheel zooms at the cursor, also
// on one axis alone; right-drag zooms to a box. In a plot of tokens right-drag selects what lies in a box
// instead, with Shift inside an outline, and with Ctrl it zooms. A plot of space is turned by left-drag, and
// panned by it with Shift. Between begin and end the plot's content can be drawn, by the view.
class Plot {
 public:
  // Returns whether there is a plot; only then end must follow.
  //   rect: with the axes' numbers and names; view: what is shown, which follows the mouse and the frame
  //   names: whether axes have theirs; selects: whether tokens can be selected
  bool begin(DrawContext& context, const std::string& name, const Rect& rect, const figures::Panel& panel,
             PlotView& view, bool names, bool selects);
  PlotMouse end(DrawContext& context, const PlotView& view);

 private:
  void set_up_axes(DrawContext& context, const figures::Panel& panel, const PlotView& view, bool names);
  void set_up_ticks(const DrawContext& context, const figures::Panel& panel, const PlotView& view);
  void follow_mouse(DrawContext& context, PlotView& view);
  void draw_outline(DrawContext& context, PlotMouse& mouse);

  enum class Tool { kNone, kBox, kOutline };

  double limits_[4] = {};  // as ImPlot has them: x low and high, y low and high
  bool space_ = false, selects_ = false;
  bool turning_ = false;
  Tool tool_ = Tool::kNone;
  std::vector<Pixel> trail_;  // where the tool has been; of a box its corner
};

// What was drawn for a plot, over its frame; between begin and end.
void draw_picture(const HeatmapLayer& layer, const PlotView& view);
void draw_picture(const PointLayer& layer, const PlotView& view);

// The room that a colour scale takes at the right of a plot, in pixels.
float colour_bar_width(const DrawContext& context, const figures::ColourScale& scale, float height);

// The scale itself, with ticks and the name of what is shown. Categories are blocks with their names, the
// first at the top.
//   bar: as high as the plot beside it
void draw_colour_bar(const DrawContext& context, const figures::ColourScale& scale, const Rect& bar);

// What a panel's plane must show: the data with a margin, a heatmap's cells exactly.
figures::Extent plane_extent(const figures::Panel& panel);

}  // namespace keyscope::window

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/display/draw_context.hpp"
#include "app/figures/figure.hpp"
#include "app/session/head_points.hpp"

namespace keyscope::window {

struct Pixel {
  float x = 0, y = 0;
};

struct PlotPoint {
  double x = 0, y = 0;
};

// Which part of the plane a plot shows, and where on the screen: pan, zoom at the cursor, fit. Pixels are the
// window's, y downwards; the plane's y goes upwards. Until the user moves it, a view stays fitted when its
// frame changes size.
class PlotView {
 public:
  void set_frame(float left, float top, float width, float height);

  // Shows all of `extent` with a margin. With equal aspect one unit is as long on x as on y.
  //   margin: on every side, as a share of the frame
  void fit(const figures::Extent& extent, bool equal_aspect, double margin = kMargin);
  static constexpr double kMargin = 0.05;

  // Shows the part of the plane that `other` does, in its own frame.
  void follow(const PlotView& other);

  void pan(float dx, float dy);
  void zoom_at(Pixel at, double factor);  // > 1: closer
  void zoom_to(Pixel corner, Pixel opposite);

  Pixel to_pixel(double x, double y) const;
  PlotPoint to_plane(Pixel at) const;
  bool contains(Pixel at) const;

  float left() const { return left_; }
  float top() const { return top_; }
  float width() const { return width_; }
  float height() const { return height_; }
  double x_low() const { return to_plane({left_, top_}).x; }
  double x_high() const { return to_plane({left_ + width_, top_}).x; }
  double y_low() const { return to_plane({left_, top_ + height_}).y; }
  double y_high() const { return to_plane({left_, top_}).y; }
  PlotPoint centre() const { return {centre_x_, centre_y_}; }
  double pixels_per_unit_x() const { return scale_x_; }
  double pixels_per_unit_y() const { return scale_y_; }

  bool moved() const { return moved_; }                 // by the user, since the last fit
  std::uint64_t revision() const { return revision_; }  // changes whenever the mapping does

 private:
  void show_extent();
  void clamp_scale();

  float left_ = 0, top_ = 0, width_ = 1, height_ = 1;
  double centre_x_ = 0, centre_y_ = 0;
  double scale_x_ = 1, scale_y_ = 1;
  figures::Extent extent_;
  bool equal_aspect_ = true;
  double margin_ = kMargin;
  bool moved_ = false;
  std::uint64_t revision_ = 0;
};

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
  Outcome handle(const DrawContext& context, PlotView& view, const PlotAbilities& abilities = {});

  // The box or the outline that is being drawn.
  void draw(const DrawContext& context) const;

  // Whether the left or the middle button drags the plot.
  bool drags() const { return dragged_.has_value(); }

 private:
  enum class Tool { kNone, kZoom, kBox, kOutline };

  void drag(const DrawContext& context, PlotView& view, const PlotAbilities& abilities, Outcome& outcome);
  void draw_with_tool(const DrawContext& context, PlotView& view, const PlotAbilities& abilities,
                      Outcome& outcome);

  Tool tool_ = Tool::kNone;
  std::vector<Pixel> trail_;      // where the tool has been; of a box its corner
  std::optional<Pixel> dragged_;  // how far the drag under way has come
  bool turning_ = false;          // that drag turns the plot
};

// Finds the token under the cursor: a grid over the points of a panel that are tokens.
class PointIndex {
 public:
  // hidden: ids of series that are switched off; the arrays of `panel` are copied
  void build(const figures::Panel& panel, const std::vector<std::string>& hidden);

  // The token whose point is nearest to `at`, within `radius_px` on the screen; of equally near ones the last
  // drawn.
  std::optional<std::int32_t> nearest(const PlotView& view, Pixel at, float radius_px) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    float x, y;
    std::int32_t token;
    std::int32_t order;  // of drawing
  };
  static constexpr int kCells = 192;  // along each side

  int column(double x) const;
  int row(double y) const;

  figures::Extent extent_;
  std::vector<Entry> entries_;        // by cell
  std::vector<std::uint32_t> start_;  // (kCells² + 1) first entry of each cell
};

}  // namespace keyscope::window

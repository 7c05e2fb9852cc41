#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/display/gl_objects.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/theme.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::window {

// A part of a picture in pixels from its top left corner: x_low <= x < x_high, y_low <= y < y_high.
struct PixelRect {
  int x_low = 0, y_low = 0, x_high = 0, y_high = 0;
  bool operator==(const PixelRect&) const = default;
};

// A point's centre in pixels of the plot, and which of its series it is.
struct VisibleCentre {
  float x = 0, y = 0;
  std::uint32_t at = 0;
};

// Of one series: about as many as are drawn ten times a second without a graphics card.
inline constexpr std::size_t kMostCentres = 80'000;

// Centres that can be seen in a part of a plot, for one series: those outside are left out, and so is every
// point whose centre shares half a pixel with one that it lies under: in the plane with one drawn after it,
// in space with one nearer to the eye. Of what is left out nothing would be seen but a rim of less than a
// pixel. Where more than kMostCentres are left even so, it is those whose centre shares one pixel with one in
// front, then two, then four, up to half a point: closer ones are not told apart.
//   series: in space `z` is the depth, larger farther away
//   diameter_px: points are kept while any of their pixels is inside `part`
//   out: in the order of drawing
//   occupied: scratch memory
void visible_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out,
                     std::vector<std::uint64_t>& occupied);
void nearest_centres(const figures::PointSeries& series, const PlotView& view, const PixelRect& part,
                     float diameter_px, std::vector<VisibleCentre>& out, std::vector<std::uint32_t>& nearest);

// A panel's discs, rings and crosses, drawn with OpenGL into a texture somewhat larger than the plot, by
// their values where these have a scale: drawn again only when something about them or the scale changed, or
// when the plot was panned beyond what is there. Between them the picture is transparent, and its colours are
// premultiplied by their alpha. In space, where the points' `z` is their depth, the nearest is in front,
// without sorting, and the farther away, the paler.
class PointLayer {
 public:
  PointLayer();

  // Draws where what is there does not show the panel in this view.
  void draw(const figures::Panel& panel, std::uint64_t panel_revision, const PlotView& view,
            const Theme& theme, const std::vector<std::string>& hidden, float scale);

  // Whether a series is drawn here; other markers are few and laid over.
  static bool draws(const figures::PointSeries& series);

  GLuint texture() const { return target_.texture(); }
  int width() const { return target_.width(); }
  int height() const { return target_.height(); }
  PixelRect shown() const { return shown_; }                   // the part of the texture that the plot shows
  std::int64_t points_drawn() const { return points_drawn_; }  // the last time

 private:
  // What a picture depends on, besides its view.
  struct Content {
    std::uint64_t panel = 0;
    bool light = false;
    std::vector<std::string> hidden;
    float scale = 0;
    bool operator==(const Content&) const = default;
  };

  bool still_shows(const PlotView& view);
  void draw_all(const figures::Panel& panel, const Theme& theme);
  void draw_series(const figures::Panel& panel, const figures::PointSeries& series, const Theme& theme);
  void begin_depth(const figures::Panel& panel);
  void fill_vertices(const figures::Panel& panel, const figures::PointSeries& series, const Theme& theme);

  GlProgram program_;
  GlVertexArray vertices_;
  GlBuffer centres_;
  RenderTarget target_;
  bool empty_ = true;
  Content content_;
  PlotView view_;  // of the whole picture, whose frame begins at zero
  PixelRect shown_;
  // As the vertex shader takes it.
  struct Vertex {
    float x = 0, y = 0, depth = 0;
    ImU32 ink = 0;
  };
  std::vector<VisibleCentre> centres_seen_;
  std::vector<Vertex> buffer_;
  std::vector<std::uint64_t> occupied_;
  std::vector<std::uint32_t> nearest_;
  float depth_low_ = 0, depth_high_ = 0;  // of all points in space
  std::int64_t points_drawn_ = 0;
};

}  // namespace keyscope::window

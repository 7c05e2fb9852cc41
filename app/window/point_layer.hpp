#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/panels/plot_view.hpp"
#include "app/window/gl_objects.hpp"
#include "app/window/theme.hpp"

namespace keyscope::window {

// Centres in pixels of the plot that can be seen, for one series: those outside the plot are left out, and so
// is every point whose centre shares half a pixel with one drawn after it, which it lies under.
//   diameter_px: points are kept while any part of them is inside
//   out: x0, y0, x1, y1 …, in the order of drawing
void visible_centres(const figures::PointSeries& series, const PlotView& view, float diameter_px,
                     std::vector<float>& out, std::vector<std::uint64_t>& occupied);

// Where the plot's grid lines lie, in pixels from its top left corner.
struct PlotGrid {
  std::vector<float> x_px, y_px;
};

// A panel's discs and rings, drawn with OpenGL into a texture as large as the plot. Drawn again only when
// something about it changed; what is laid over it (cursor, markers) costs nothing here.
class PointLayer {
 public:
  PointLayer();

  // Draws if `panel_revision`, the view, the theme or `hidden` differ from the last time, or the size does.
  void draw(const figures::Panel& panel, std::uint64_t panel_revision, const PlotView& view,
            const PlotGrid& grid, const Theme& theme, const std::vector<std::string>& hidden, float scale);

  GLuint texture() const { return target_.texture(); }
  std::int64_t points_drawn() const { return points_drawn_; }

 private:
  struct Drawn {
    std::uint64_t panel = 0, view = 0;
    bool light = false;
    std::vector<std::string> hidden;
    bool operator==(const Drawn&) const = default;
  };

  void draw_series(const figures::PointSeries& series, const PlotView& view, float scale);

  GlProgram program_;
  GlVertexArray vertices_;
  GlBuffer centres_;
  RenderTarget target_;
  Drawn drawn_;
  bool empty_ = true;
  std::vector<float> buffer_;
  std::vector<std::uint64_t> occupied_;
  std::int64_t points_drawn_ = 0;
};

}  // namespace keyscope::window

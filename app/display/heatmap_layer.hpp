#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "app/display/gl_objects.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/theme.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/heatmap_pyramid.hpp"
#include "app/figures/reduction.hpp"

namespace keyscope::window {

// A heatmap, drawn with OpenGL into a texture as large as the plot: cells as R32F textures, one a level of
// the pyramid, and a colour table. The plane goes
// downwards, as rows do.
class HeatmapLayer {
 public:
  HeatmapLayer();

  // Takes a matrix over; drawn from then on.
  void set(const figures::Heatmap& heatmap, figures::Reduction reduction);

  // Other ends of the colour scale, for the same matrix.
  void set_range(float low, float high);

  // Draws if the matrix, the view or the theme differ from the last time.
  void draw(const PlotView& view, const Theme& theme);

  GLuint texture() const { return target_.texture(); }
  figures::HeatmapLevel level() const { return level_; }  // that was drawn the last time

 private:
  void upload_colours();
  GLuint cells_of(figures::HeatmapLevel level);  // its texture, made when it is first asked for
  void draw_cells(const PlotView& view, const Theme& theme);

  GlProgram program_;
  GlVertexArray vertices_;  // none: the shader makes its own
  GlTexture colours_;
  RenderTarget target_;
  figures::Heatmap about_;  // without its values
  figures::HeatmapPyramid pyramid_;
  std::map<figures::HeatmapLevel, std::unique_ptr<GlTexture>> cells_;
  figures::HeatmapLevel level_;
  bool fresh_ = false;  // the matrix was not drawn yet
  std::uint64_t view_revision_ = 0;
  bool light_ = false;
};

}  // namespace keyscope::window

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "app/display/gl_objects.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/theme.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/reduction.hpp"

namespace keyscope::window {

// How often columns (x) and rows (y) were halved.
struct HeatmapLevel {
  std::size_t x = 0, y = 0;
  auto operator<=>(const HeatmapLevel&) const = default;
};

// A matrix at halves, quarters, … of its size, so that every cell takes part in the picture however small it
// is drawn: with max, a single bright column never vanishes. Level 0 is the matrix itself; a cell of level L
// stands for 2^L × 2^L of it, NaN ones left out (fewer at the last row and column); one of NaN alone is NaN.
// Where few columns stand beside many rows, or few rows beside many columns, only the many are halved.
class HeatmapPyramid {
 public:
  HeatmapPyramid() = default;
  HeatmapPyramid(RowMatrixF values, figures::Reduction reduction);

  // Those whose columns and rows were halved as often.
  const std::vector<RowMatrixF>& levels() const { return levels_; }

  // Any level; one of the others is made when it is first asked for.
  const RowMatrixF& at(HeatmapLevel level);

  // The level whose cells are at least a pixel wide and high, for so many cells of level 0 a pixel.
  HeatmapLevel level_for(double x_cells_per_pixel, double y_cells_per_pixel) const;

 private:
  std::size_t level_for(double cells_per_pixel) const;

  figures::Reduction reduction_ = figures::Reduction::kMean;
  std::vector<RowMatrixF> levels_;
  std::map<HeatmapLevel, RowMatrixF> others_;
};

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
  HeatmapLevel level() const { return level_; }  // that was drawn the last time

 private:
  void upload_colours();
  GLuint cells_of(HeatmapLevel level);  // its texture, made when it is first asked for
  void draw_cells(const PlotView& view, const Theme& theme);

  GlProgram program_;
  GlVertexArray vertices_;  // none: the shader makes its own
  GlTexture colours_;
  RenderTarget target_;
  figures::Heatmap about_;  // without its values
  HeatmapPyramid pyramid_;
  std::map<HeatmapLevel, std::unique_ptr<GlTexture>> cells_;
  HeatmapLevel level_;
  bool fresh_ = false;  // the matrix was not drawn yet
  std::uint64_t view_revision_ = 0;
  bool light_ = false;
};

}  // namespace keyscope::window

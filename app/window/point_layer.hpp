#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/panels/plot_view.hpp"
#include "app/window/gl_objects.hpp"
#include "app/window/scroll.hpp"
#include "app/window/theme.hpp"

namespace keyscope::window {

// A panel's discs and rings, drawn with OpenGL into a texture as large as the plot. Drawn again only when
// something about it changed, and only at the edges when it was panned by whole pixels; what is laid over it
// (cursor, markers) costs nothing here.
class PointLayer {
 public:
  PointLayer();

  // Draws if `panel_revision`, the view, its grid, the theme or `hidden` differ from the last time.
  void draw(const figures::Panel& panel, std::uint64_t panel_revision, const PlotView& view,
            const PlotGrid& grid, const Theme& theme, const std::vector<std::string>& hidden, float scale);

  GLuint texture() const { return targets_[shown_].texture(); }
  std::int64_t points_drawn() const { return points_drawn_; }  // the last time

 private:
  // What a picture depends on, besides its view and grid.
  struct Content {
    std::uint64_t panel = 0;
    bool light = false;
    std::vector<std::string> hidden;
    float scale = 0;
    bool operator==(const Content&) const = default;
  };

  RenderTarget& shown() { return targets_[shown_]; }
  bool scroll(PixelShift shift, const figures::Panel& panel, const PlotView& view, const PlotGrid& grid,
              const Theme& theme);
  void draw_part(const PixelRect& part, const figures::Panel& panel, const PlotView& view,
                 const PlotGrid& grid, const Theme& theme);
  void draw_series(const figures::PointSeries& series, const PixelRect& part, const PlotView& view,
                   const Theme& theme);

  GlProgram program_;
  GlVertexArray vertices_;
  GlBuffer centres_;
  std::array<RenderTarget, 2> targets_;  // what is shown, and what the next picture is made in
  std::size_t shown_ = 0;
  bool empty_ = true;
  Content content_;
  PlotGrid grid_;
  PlotView whole_view_;  // of the last picture that was drawn whole
  PixelShift shift_;     // since then
  std::vector<float> buffer_;
  std::vector<std::uint64_t> occupied_;
  std::int64_t points_drawn_ = 0;
};

}  // namespace keyscope::window
